package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// loadLimit bounds the time of one load.
const loadLimit = 10 * time.Minute

// load runs work on a cluster, and adds the CPU time that it took, the memory after it and the peak of the memory meanwhile.
func load(ctx context.Context, s side, c *cluster, t *table, what string, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return err
	}
	return profiled(ctx, client, t.profiles, s.name()+" "+what, func() error { return measured(ctx, s, c.processes, t, what, work) })
}

func measured(ctx context.Context, s side, p processes, t *table, what string, work func(ctx context.Context) error) error {
	if err := p.resetPeak(); err != nil {
		return err
	}
	used, err := p.during(func() error { return work(ctx) })
	if err != nil {
		return err
	}
	t.add(s, what+": CPU", cpu, used)
	rss, err := p.memory("VmRSS")
	if err != nil {
		return err
	}
	t.add(s, what+": memory after it", bytes, rss)
	peak, err := p.memory("VmHWM")
	t.add(s, what+": peak memory", bytes, peak)
	return err
}

// replicas measures a Deployment from its creation until all pods are Ready. The figures include the CPU time of this program, which shares
// the cores with the servers.
func replicas(ctx context.Context, s side, t *table, n, nodes int) error {
	return with(ctx, s, want{control: true, nodes: nodes}, func(c *cluster, _ kubernetes.Interface) error {
		client, err := c.clientOf(runtime.ContentTypeProtobuf) // a watch in JSON would take CPU time from the programs that it measures
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%d replicas on %d nodes", n, nodes)
		return load(ctx, s, c, t, what, func(ctx context.Context) error {
			var bound, ready time.Duration
			own, err := processes{os.Getpid()}.during(func() (err error) {
				bound, ready, err = podsCome(ctx, client, n, func() error { return createDeployment(ctx, client, "web", n) })
				return err
			})
			t.add(s, what+": all bound", seconds, bound.Seconds())
			t.add(s, what+": all Ready", seconds, ready.Seconds())
			t.add(s, what+": CPU of this program", cpu, own)
			return err
		})
	})
}

func deployment(ctx context.Context, s side, size sizes, t *table) error {
	return replicas(ctx, s, t, size.replicas, size.nodes)
}

func manyReplicas(ctx context.Context, s side, size sizes, t *table) error {
	return replicas(ctx, s, t, size.manyReplicas, size.manyNodes)
}

// createDeployment creates a Deployment whose pods have the label app=name.
func createDeployment(ctx context.Context, client kubernetes.Interface, name string, replicas int) error {
	labels, count := map[string]string{"app": name}, int32(replicas)
	_, err := client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &count, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("", "").Spec},
		},
	}, metav1.CreateOptions{})
	return err
}

// perDeployment is the number of replicas of each Deployment that rolling updates.
const perDeployment = 5

// rolling changes the image of many Deployments at once, and measures until all of them have only new, available pods.
func rolling(ctx context.Context, s side, size sizes, t *table) error {
	return with(ctx, s, want{control: true, nodes: size.nodes}, func(c *cluster, client kubernetes.Interface) error {
		name := func(i int) string { return fmt.Sprintf("web-%d", i) }
		err := parallel(size.deployments, 32, func(i int) error { return createDeployment(ctx, client, name(i), perDeployment) })
		if err != nil {
			return err
		}
		if err := rolledOut(ctx, client, size.deployments); err != nil {
			return err
		}
		what := fmt.Sprintf("%d Deployments of %d replicas roll at once", size.deployments, perDeployment)
		return load(ctx, s, c, t, what, func(ctx context.Context) error {
			began := time.Now()
			patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"registry.k8s.io/pause:3.11"}]}}}}`)
			err := parallel(size.deployments, 32, func(i int) error {
				_, err := client.AppsV1().Deployments("default").Patch(ctx, name(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
				return err
			})
			if err != nil {
				return err
			}
			err = rolledOut(ctx, client, size.deployments)
			t.add(s, what+": all rolled out", seconds, time.Since(began).Seconds())
			return err
		})
	})
}

// rolledOut waits until n Deployments have only available pods of their current template.
func rolledOut(ctx context.Context, client kubernetes.Interface, n int) error {
	return pollEvery(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		list, err := client.AppsV1().Deployments("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		done := 0
		for _, d := range list.Items {
			want, has := *d.Spec.Replicas, d.Status
			if has.ObservedGeneration == d.Generation && has.Replicas == want && has.UpdatedReplicas == want && has.AvailableReplicas == want {
				done++
			}
		}
		if done < n {
			return fmt.Errorf("%d of %d Deployments are rolled out", done, n)
		}
		return nil
	})
}

// jobs creates Jobs of one pod each, whose containers exit as soon as they run, and measures until all are Complete.
func jobs(ctx context.Context, s side, size sizes, t *table) error {
	return with(ctx, s, want{control: true, nodes: size.nodes}, func(c *cluster, client kubernetes.Interface) error {
		what := fmt.Sprintf("%d Jobs on %d nodes", size.jobs, size.nodes)
		return load(ctx, s, c, t, what, func(ctx context.Context) error {
			began := time.Now()
			template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{exitAfter: "0s"}}, Spec: pod("", "").Spec}
			template.Spec.RestartPolicy = corev1.RestartPolicyNever
			err := parallel(size.jobs, 32, func(i int) error {
				job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%d", i)}, Spec: batchv1.JobSpec{Template: template}}
				_, err := client.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{})
				return err
			})
			if err != nil {
				return err
			}
			err = pollEvery(ctx, 100*time.Millisecond, func(ctx context.Context) error { return completed(ctx, client, size.jobs) })
			t.add(s, what+": all Complete", seconds, time.Since(began).Seconds())
			return err
		})
	})
}

func completed(ctx context.Context, client kubernetes.Interface, n int) error {
	list, err := client.BatchV1().Jobs("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	done := 0
	for _, job := range list.Items {
		if job.Status.CompletionTime != nil {
			done++
		}
	}
	if done < n {
		return fmt.Errorf("%d of %d Jobs are complete", done, n)
	}
	return nil
}

// endpoints measures a Service that selects the pods of a Deployment, from the creation of both until the Service's slices
// have all pods as ready endpoints, and until they follow when the Deployment has one replica less.
func endpoints(ctx context.Context, s side, size sizes, t *table) error {
	return with(ctx, s, want{control: true, nodes: size.nodes}, func(c *cluster, client kubernetes.Interface) error {
		what := fmt.Sprintf("a Service with %d endpoints", size.endpoints)
		return load(ctx, s, c, t, what, func(ctx context.Context) error {
			began := time.Now()
			_, err := client.CoreV1().Services("default").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if err := createDeployment(ctx, client, "web", size.endpoints); err != nil {
				return err
			}
			if err := readyEndpoints(ctx, client, size.endpoints); err != nil {
				return err
			}
			t.add(s, what+": all in slices", seconds, time.Since(began).Seconds())
			began = time.Now()
			patch := []byte(fmt.Sprintf(`{"spec":{"replicas":%d}}`, size.endpoints-1))
			_, err = client.AppsV1().Deployments("default").Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return err
			}
			err = readyEndpoints(ctx, client, size.endpoints-1)
			t.add(s, what+": one fewer", seconds, time.Since(began).Seconds())
			return err
		})
	})
}

// readyEndpoints waits until the slices of the Service web have n ready endpoints.
func readyEndpoints(ctx context.Context, client kubernetes.Interface, n int) error {
	return pollEvery(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		list, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err
		}
		ready := 0
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != n {
			return fmt.Errorf("%d of %d endpoints are ready", ready, n)
		}
		return nil
	})
}

// idleLoad measures the CPU time of a cluster that has objects and nodes but nothing to do.
func idleLoad(ctx context.Context, s side, size sizes, t *table) error {
	return with(ctx, s, want{control: true, nodes: size.nodes}, func(c *cluster, client kubernetes.Interface) error {
		err := parallel(size.objects/2, 32, func(i int) error {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d", i)}, Data: map[string]string{"k": "v"},
			}, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		replicas := size.objects - size.objects/2
		if _, _, err := podsCome(ctx, client, replicas, func() error { return createDeployment(ctx, client, "web", replicas) }); err != nil {
			return err
		}
		if err := sleep(ctx, 2*idle); err != nil { // the events and the controllers' last writes
			return err
		}
		before, err := c.cpu()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := sleep(ctx, size.idle); err != nil {
			return err
		}
		after, err := c.cpu()
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%d objects and %d nodes", size.objects, size.nodes)
		t.add(s, what+": CPU while idle", share, (after-before)/time.Since(began).Seconds())
		rss, err := c.memory("VmRSS")
		t.add(s, what+": memory", bytes, rss)
		return err
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
