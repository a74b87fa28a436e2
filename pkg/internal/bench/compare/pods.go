package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// kubelets is the number of pod statuses that are written concurrently.
const kubelets = 16

// simulate creates nodes and reports the pods that are bound to them as Running and Ready, until end is called.
func simulate(ctx context.Context, c *cluster, nodes int) (end func() error, err error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	if err := createNodes(ctx, client, nodes, simulatedNode); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	queue := workqueue.NewTyped[*corev1.Pod]()
	factory := informers.NewSharedInformerFactory(client, 0)
	bound := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" && (pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil) {
			queue.Add(pod)
		}
	}
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: bound, UpdateFunc: func(_, obj any) { bound(obj) },
	})
	if err != nil {
		cancel()
		return nil, err
	}
	factory.Start(ctx.Done())
	var workers sync.WaitGroup
	for range kubelets {
		workers.Go(func() {
			for {
				pod, over := queue.Get()
				if over {
					return
				}
				if err := report(ctx, client, pod); err != nil && ctx.Err() == nil {
					queue.Add(pod) // most likely a conflict: the informer will deliver the newer one
				}
				queue.Done(pod)
			}
		})
	}
	return func() error {
		cancel()
		queue.ShutDown()
		workers.Wait()
		factory.Shutdown()
		return nil
	}, nil
}

// createNodes creates nodes from their numbers.
func createNodes(ctx context.Context, client kubernetes.Interface, n int, node func(i int) *corev1.Node) error {
	return parallel(n, kubelets, func(i int) error {
		_, err := client.CoreV1().Nodes().Create(ctx, node(i), metav1.CreateOptions{})
		return err
	})
}

func simulatedNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i)
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: has, Allocatable: has,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	}
}

// exitAfter is the annotation of minikctl's simulated pods whose containers end by themselves. This program ends them at once.
const exitAfter = "minikctl.dev/sim-exit-after"

// report does what the kubelet of a bound pod does: the pod is Running and Ready, or has Succeeded, or is gone after its deletion.
func report(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	var err error
	switch _, exits := pod.Annotations[exitAfter]; {
	case pod.DeletionTimestamp != nil:
		err = client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
	case exits:
		_, err = client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, succeeded(pod), metav1.UpdateOptions{})
	default:
		_, err = client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, running(pod), metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted, or a newer one is about to be delivered
	}
	return err
}

func succeeded(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodSucceeded, &now
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}},
		})
	}
	return pod
}

// addresses counts the addresses of pods, which no process listens on.
var addresses atomic.Uint32

func running(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	now := metav1.Now()
	n := addresses.Add(1)
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", 128+n>>16, n>>8&255, n&255)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return pod
}

// nodesReady waits until the cluster has that many nodes and all of them are schedulable.
func nodesReady(ctx context.Context, c *cluster, nodes int) error {
	if nodes == 0 {
		return nil
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for _, node := range list.Items {
			if len(node.Spec.Taints) == 0 {
				ready++
			}
		}
		if ready < nodes {
			return fmt.Errorf("%d of %d nodes are ready", ready, nodes)
		}
		return nil
	})
}
