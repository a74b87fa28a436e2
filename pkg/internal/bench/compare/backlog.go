package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
		{what: "no constraint", pods: size.manyReplicas, nodes: size.manyNodes, change: plain},
		{what: "no constraint", pods: size.manyReplicas, nodes: 5 * size.manyNodes, change: plain},
		{what: "no constraint", pods: 2 * size.manyReplicas, nodes: 5 * size.manyNodes, change: plain},
		{what: "spread over zones", pods: size.pods, nodes: size.manyNodes, change: spread(corev1.LabelTopologyZone, 5)},
		{what: fmt.Sprintf("anti-affinity in groups of %d", group), pods: size.pods, nodes: size.manyNodes, change: antiAffinity(group)},
		{what: fmt.Sprintf("affinity to the zone of a group of %d", group), pods: size.pods, nodes: size.manyNodes, change: affinity(group)},
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
	later       int // pods that come one by one when the others are bound

	prepare func(ctx context.Context, client kubernetes.Interface) error // creates what is there before the pods; nil: nothing
	beside  func(ctx context.Context, client kubernetes.Interface) error // changes the cluster until ctx ends; nil: nothing does
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
	ctx, cancel := context.WithTimeout(ctx, 2*loadLimit)
	defer cancel()
	w, err := watchPods(ctx, client)
	if err != nil {
		return err
	}
	defer w.Stop()
	var end func() error
	err = load(ctx, s, c, t, what+": API server", func(ctx context.Context) (err error) {
		end, err = p.schedule(ctx, s, c, client, w, t, what)
		return err
	})
	if err == nil && p.later > 0 {
		err = p.comeLater(ctx, s, client, w, t, what)
	}
	if end != nil {
		err = errors.Join(err, end())
	}
	return err
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
	if p.prepare != nil {
		if err := p.prepare(ctx, client); err != nil {
			return err
		}
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

// schedule starts the scheduler and measures it until all pods are bound. end ends the scheduler; it is nil if none runs.
func (p pending) schedule(ctx context.Context, s side, c *cluster, client kubernetes.Interface, w watch.Interface, t *table, what string) (end func() error, err error) {
	began := time.Now()
	scheduler, end, err := c.schedule()
	if err != nil {
		return nil, err
	}
	first, last, err := p.bindings(ctx, client, w)
	if err != nil {
		return end, err
	}
	t.add(s, what+": first to last binding", rate, float64(p.pods-1)/last.Sub(first).Seconds())
	t.add(s, what+": start of the scheduler to last binding", rate, float64(p.pods)/last.Sub(began).Seconds())
	used, err := scheduler.cpu()
	if err != nil {
		return end, err
	}
	t.add(s, what+": scheduler: CPU", cpu, used)
	peak, err := scheduler.memory("VmHWM")
	t.add(s, what+": scheduler: peak memory", bytes, peak)
	return end, err
}

// bindings returns when the first and the last pod were bound, while the cluster changes.
func (p pending) bindings(ctx context.Context, client kubernetes.Interface, w watch.Interface) (first, last time.Time, err error) {
	if p.beside == nil {
		return bindings(w, p.pods)
	}
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- p.beside(ctx, client) }()
	first, last, err = bindings(w, p.pods)
	cancel()
	return first, last, errors.Join(err, <-failed)
}

// pause is the time between two pods that come later: both sides' schedulers are idle for most of it.
const pause = 20 * time.Millisecond

// comeLater creates pods one by one and measures how long each takes from the request to its binding, as a watch brings it.
func (p pending) comeLater(ctx context.Context, s side, client kubernetes.Interface, w watch.Interface, t *table, what string) error {
	sent := make(map[string]time.Time, p.later)
	var mu sync.Mutex
	failed := make(chan error, 1)
	go func() {
		for i := range p.later {
			made := numbered(p.pods+i, p.change)
			mu.Lock()
			sent[made.Name] = time.Now()
			mu.Unlock()
			if _, err := client.CoreV1().Pods("default").Create(ctx, made, metav1.CreateOptions{}); err != nil {
				w.Stop() // the loop below would wait for the pod
				failed <- err
				return
			}
			time.Sleep(pause) // the measured load: pods that arrive one by one, at a fixed rate
		}
		failed <- nil
	}()
	var took []float64
	bound := map[string]bool{}
	for ev := range w.ResultChan() {
		made, ok := ev.Object.(*corev1.Pod)
		if !ok || made.Spec.NodeName == "" || bound[made.Name] {
			continue
		}
		mu.Lock()
		at, later := sent[made.Name]
		mu.Unlock()
		if !later {
			continue
		}
		bound[made.Name] = true
		if took = append(took, time.Since(at).Seconds()); len(took) == p.later {
			break
		}
	}
	if err := <-failed; err != nil || len(took) < p.later {
		return errors.Join(err, fmt.Errorf("%d of %d later pods were bound", len(took), p.later))
	}
	slices.Sort(took)
	t.add(s, what+": a later pod, p50", seconds, took[len(took)/2])
	t.add(s, what+": a later pod, p99", seconds, took[len(took)*99/100])
	return nil
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
