package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// zones is how many zones the nodes of a backlog are in.
const zones = 3

// backlog measures a scheduler in a process of its own that starts when all nodes and pods have been created. No kubelet and no
// controller runs, so that the scheduler and the API have the machine for themselves.
func backlog(ctx context.Context, s side, size sizes, t *table) error {
	group := max(1, size.manyNodes/5)
	for _, pods := range []pending{
		{"no constraint", size.manyReplicas, size.manyNodes, plain},
		{"no constraint", size.manyReplicas, 5 * size.manyNodes, plain},
		{"no constraint", 2 * size.manyReplicas, 5 * size.manyNodes, plain},
		{"spread over zones", size.pods, size.manyNodes, spread(corev1.LabelTopologyZone, 5)},
		{fmt.Sprintf("anti-affinity in groups of %d", group), size.pods, size.manyNodes, antiAffinity(group)},
		{fmt.Sprintf("affinity to the zone of a group of %d", group), size.pods, size.manyNodes, affinity(group)},
	} {
		err := with(ctx, s, want{}, func(c *cluster, _ kubernetes.Interface) error { return pods.measure(ctx, s, c, size.settle, t) })
		if err != nil {
			return err
		}
	}
	return nil
}

// pending are the pods of a backlog, and the number of its nodes.
type pending struct {
	what        string
	pods, nodes int
	change      func(i int, p *corev1.Pod)
}

func (p pending) measure(ctx context.Context, s side, c *cluster, settle time.Duration, t *table) error {
	client, err := c.clientOf(runtime.ContentTypeProtobuf) // a watch in JSON would take CPU time from the programs that it measures
	if err != nil {
		return err
	}
	if err := p.create(ctx, client); err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	what := fmt.Sprintf("%d pods on %d nodes, %s", p.pods, p.nodes, p.what)
	return load(ctx, s, c, t, what+": API server", func(ctx context.Context) error { return p.schedule(ctx, s, c, client, t, what) })
}

// create creates the nodes and the pods, in a cluster without controllers.
func (p pending) create(ctx context.Context, client kubernetes.Interface) error {
	if err := createAccount(ctx, client, "default"); err != nil {
		return err
	}
	err := createNodes(ctx, client, p.nodes, func(i int) *corev1.Node {
		node := simulatedNode(i)
		node.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%zones)
		return node
	})
	if err != nil {
		return err
	}
	if err := removeTaints(ctx, client); err != nil {
		return err
	}
	return createPods(ctx, client, p.pods, p.change)
}

// removeTaints removes the taint that the API server gives to a new node, as a controller does once the node is ready.
func removeTaints(ctx context.Context, client kubernetes.Interface) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return parallel(len(list.Items), kubelets, func(i int) error {
		node := &list.Items[i]
		node.Spec.Taints = nil
		_, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// schedule starts the scheduler and measures it until all pods are bound.
func (p pending) schedule(ctx context.Context, s side, c *cluster, client kubernetes.Interface, t *table, what string) (err error) {
	w, err := watchPods(ctx, client)
	if err != nil {
		return err
	}
	defer w.Stop()
	began := time.Now()
	scheduler, end, err := c.schedule()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	first, last, err := bindings(w, p.pods)
	if err != nil {
		return err
	}
	t.add(s, what+": first to last binding", rate, float64(p.pods-1)/last.Sub(first).Seconds())
	t.add(s, what+": start of the scheduler to last binding", rate, float64(p.pods)/last.Sub(began).Seconds())
	used, err := scheduler.cpu()
	if err != nil {
		return err
	}
	t.add(s, what+": scheduler: CPU", cpu, used)
	peak, err := scheduler.memory("VmHWM")
	t.add(s, what+": scheduler: peak memory", bytes, peak)
	return err
}

// bindings returns when a watch of pods brings the first and the last binding of n pods.
func bindings(w watch.Interface, n int) (first, last time.Time, err error) {
	bound := map[string]bool{}
	for ev := range w.ResultChan() {
		p, ok := ev.Object.(*corev1.Pod)
		if !ok {
			return first, last, fmt.Errorf("watch: %v", ev.Object)
		}
		if p.Spec.NodeName == "" || bound[p.Name] {
			continue
		}
		bound[p.Name] = true
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		if len(bound) == n {
			return first, last, nil
		}
	}
	return first, last, fmt.Errorf("the watch ended with %d of %d pods bound", len(bound), n)
}
