package virtual_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// action is something that a step may do.
type action struct {
	weight int
	do     func(r *run)
}

var actions = []action{
	{16, (*run).create}, {12, (*run).scale}, {12, (*run).update}, {5, (*run).restrategise}, {4, (*run).pause},
	{6, (*run).remove}, {10, (*run).removePod}, {3, (*run).orphanPod}, {3, (*run).relabelPod}, {2, (*run).collide},
	{4, (*run).loseNode}, {4, (*run).returnNode}, {1, (*run).removeNode}, {3, (*run).changeNode},
	{4, func(r *run) { r.note("restart the controllers"); r.RestartControllers() }},
	{2, func(r *run) { r.note("restart the scheduler"); r.RestartScheduler() }},
	{2, func(r *run) { r.note("restart the kubelets"); r.RestartKubelets() }},
	{2, func(r *run) {
		rate := []float64{0, 0.05, 0.2}[r.rng.IntN(3)]
		r.note("%v of the writes fail", rate)
		r.faults.set(rate)
	}},
}

func (r *run) act() {
	sum := 0
	for _, a := range actions {
		sum += a.weight
	}
	n := r.rng.IntN(sum)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			a.do(r)
			return
		}
	}
}

// tolerate fails the test unless a request was done or failed because of what another component has done meanwhile.
func (r *run) tolerate(what string, err error) {
	r.Helper()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		r.fail("%s: %v", what, err)
	}
}

func (r *run) any() workload { return workloads[r.rng.IntN(len(workloads))] }

func (r *run) create() {
	w := r.any()
	obj := w.spec(w.name, r.rng)
	_, err := r.Create(r.Context(), client.Target{Resource: w.resource, Namespace: "default"}, obj, metav1.CreateOptions{})
	r.tolerate("create "+w.name, err)
	if err == nil {
		r.note("create %s", describe(obj))
	}
}

// change updates a workload, if it exists.
func (r *run) change(w workload, what string, f func(objects.Object) bool) {
	for range 10 {
		got, err := r.Get(r.Context(), w.target(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		r.tolerate("get "+w.name, err)
		obj := got.DeepCopyObject().(objects.Object)
		if !f(obj) {
			return
		}
		_, err = r.Update(r.Context(), w.target(), obj, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		r.tolerate(what+" "+w.name, err)
		r.note("%s %s", what, describe(obj))
		return
	}
}

func (r *run) scale() {
	w, n := r.any(), int32(r.rng.IntN(8))
	r.change(w, "scale", func(obj objects.Object) bool {
		switch o := obj.(type) {
		case *appsv1.Deployment:
			o.Spec.Replicas = &n
		case *appsv1.ReplicaSet:
			o.Spec.Replicas = &n
		case *corev1.ReplicationController:
			o.Spec.Replicas = &n
		case *appsv1.StatefulSet:
			o.Spec.Replicas = &n
		case *batchv1.Job:
			o.Spec.Parallelism = &n
		default:
			return false
		}
		return true
	})
}

func templateOf(obj objects.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	}
	return nil
}

func (r *run) update() {
	w := r.any()
	next := template(w.name, r.rng)
	r.change(w, "update", func(obj objects.Object) bool {
		t := templateOf(obj)
		if t == nil {
			return false
		}
		next.Spec.NodeSelector = t.Spec.NodeSelector
		*t = *next.DeepCopy()
		return true
	})
}

func (r *run) restrategise() {
	w := r.any()
	deployment, stateful, daemon := strategy(r.rng), statefulStrategy(r.rng), daemonStrategy(r.rng)
	r.change(w, "strategy of", func(obj objects.Object) bool {
		switch o := obj.(type) {
		case *appsv1.Deployment:
			o.Spec.Strategy = deployment
		case *appsv1.StatefulSet:
			o.Spec.UpdateStrategy = stateful
		case *appsv1.DaemonSet:
			o.Spec.UpdateStrategy = daemon
		default:
			return false
		}
		return true
	})
}

func (r *run) pause() {
	r.change(r.any(), "pause or resume", func(obj objects.Object) bool {
		switch o := obj.(type) {
		case *appsv1.Deployment:
			o.Spec.Paused = !o.Spec.Paused
		case *batchv1.Job:
			o.Spec.Suspend = new(o.Spec.Suspend == nil || !*o.Spec.Suspend)
		default:
			return false
		}
		return true
	})
}

var policies = []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}

func (r *run) remove() {
	w, policy := r.any(), policies[r.rng.IntN(3)]
	_, err := r.Delete(r.Context(), w.target(), metav1.DeleteOptions{PropagationPolicy: &policy})
	r.tolerate("delete "+w.name, err)
	if err == nil {
		r.note("delete %s %s %s", w.kind, w.name, policy)
	}
}

// pods returns the pods in an order that does not depend on their names' random parts more than needed.
func (r *run) pods() []*corev1.Pod {
	got, err := r.List(r.Context(), client.Target{Resource: client.Pods, Namespace: "default"}, metav1.ListOptions{})
	r.tolerate("list pods", err)
	var out []*corev1.Pod
	for _, obj := range got.Items {
		out = append(out, obj.(*corev1.Pod))
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Labels[app], b.Labels[app]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// anyPod returns one of the pods, nil if there is none.
func (r *run) anyPod() *corev1.Pod {
	n, pods := r.rng.IntN(1000), r.pods()
	if len(pods) == 0 {
		return nil
	}
	return pods[n*len(pods)/1000]
}

func (r *run) removePod() {
	p := r.anyPod()
	opts := metav1.DeleteOptions{}
	if r.rng.IntN(3) == 0 {
		opts.GracePeriodSeconds = new(int64(0))
	}
	if p == nil {
		return
	}
	r.faults.deletedBy("a user", p.UID)
	_, err := r.Delete(r.Context(), client.In(client.Pods, objects.Key{Namespace: p.Namespace, Name: p.Name}), opts)
	r.tolerate("delete pod", err)
	r.note("delete pod %s", p.Name)
}

// orphanPod creates a pod that a workload may adopt, or one like it in another namespace.
func (r *run) orphanPod() {
	w := r.any()
	t := template(w.name, r.rng)
	good(&t)
	namespace := []string{"default", "default", "kube-system"}[r.rng.IntN(3)]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", w.name, r.rng.IntN(6)), Namespace: namespace, Labels: t.Labels}, Spec: t.Spec}
	_, err := r.Create(r.Context(), client.Target{Resource: client.Pods, Namespace: namespace}, p, metav1.CreateOptions{})
	r.tolerate("create pod", err)
	r.note("create pod %s/%s", namespace, p.Name)
}

// relabelPod takes the label away that an owner selects a pod by, or gives a pod that of another.
func (r *run) relabelPod() {
	p, to := r.anyPod(), r.any().name
	if p == nil {
		return
	}
	if r.rng.IntN(2) == 0 {
		to = "nobody"
	}
	p = p.DeepCopy()
	p.Labels[app] = to
	_, err := r.Update(r.Context(), client.In(client.Pods, objects.Key{Namespace: p.Namespace, Name: p.Name}), p, metav1.UpdateOptions{})
	r.tolerate("relabel pod", err)
	r.note("relabel pod %s: %s", p.Name, to)
}

// collide deletes a Deployment and puts a foreign set in the place of each of its sets, so that the same template needs another hash.
func (r *run) collide() {
	w := workloads[r.rng.IntN(3)]
	got, err := r.Get(r.Context(), w.target(), metav1.GetOptions{})
	if err != nil {
		return
	}
	d := got.DeepCopyObject().(*appsv1.Deployment)
	sets, err := r.List(r.Context(), client.Target{Resource: client.ReplicaSets, Namespace: "default"}, metav1.ListOptions{LabelSelector: app + "=" + w.name})
	r.tolerate("list sets", err)
	background := metav1.DeletePropagationBackground
	_, err = r.Delete(r.Context(), w.target(), metav1.DeleteOptions{PropagationPolicy: &background})
	r.tolerate("delete "+w.name, err)
	r.settle(0)
	for _, s := range sets.Items {
		foreign := newReplicaSet("foreign", r.rng).(*appsv1.ReplicaSet)
		foreign.Name, foreign.Spec.Replicas = s.GetName(), new(int32(0))
		_, err = r.Create(r.Context(), client.Target{Resource: client.ReplicaSets, Namespace: "default"}, foreign, metav1.CreateOptions{})
		r.tolerate("create set", err)
	}
	d.ObjectMeta = meta(w.name)
	_, err = r.Create(r.Context(), client.Target{Resource: client.Deployments, Namespace: "default"}, d, metav1.CreateOptions{})
	r.tolerate("create "+w.name, err)
	r.note("collisions of %s: %d sets", w.name, len(sets.Items))
}

func (r *run) anyNode() string { return nodeNames[r.rng.IntN(len(nodeNames))] }

func (r *run) loseNode() {
	node := r.anyNode()
	if len(r.Running()) > 2 {
		r.note("lose node %s", node)
		r.StopNode(node)
	}
}

func (r *run) returnNode() {
	node := r.anyNode()
	if slices.Contains(r.Running(), node) {
		return
	}
	if r.rng.IntN(2) == 0 {
		r.note("reboot node %s", node)
		r.Reboot(node)
	}
	r.note("start node %s", node)
	r.StartNode(node)
}

// removeNode deletes a lost node.
func (r *run) removeNode() {
	node := r.anyNode()
	if slices.Contains(r.Running(), node) {
		return
	}
	_, err := r.Delete(r.Context(), client.Target{Resource: client.Nodes, Name: node}, metav1.DeleteOptions{})
	r.tolerate("delete node", err)
	r.note("delete node %s", node)
	r.Reboot(node)
}

// changeNode changes the labels, taints or schedulability of a node.
func (r *run) changeNode() {
	node, what := r.anyNode(), r.rng.IntN(3)
	r.changeNodeTo(node, func(n *corev1.Node) {
		switch what {
		case 0:
			n.Spec.Unschedulable = !n.Spec.Unschedulable
		case 1:
			if n.Labels["disk"] == "" {
				n.Labels["disk"] = "ssd"
			} else {
				delete(n.Labels, "disk")
			}
		case 2:
			if isDedicated(n) {
				undedicate(n)
			} else {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: dedicated, Effect: []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}[r.step%2]})
			}
		}
		r.note("node %s: labels %v unschedulable %t taints %v", node, n.Labels["disk"], n.Spec.Unschedulable, n.Spec.Taints)
	})
}

func isDedicated(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == dedicated })
}

func undedicate(n *corev1.Node) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == dedicated })
}

func (r *run) changeNodeTo(name string, f func(*corev1.Node)) {
	at := client.Target{Resource: client.Nodes, Name: name}
	for range 10 {
		got, err := r.Get(context.WithoutCancel(r.Context()), at, metav1.GetOptions{})
		if err != nil {
			r.tolerate("get node", err)
			return
		}
		n := got.DeepCopyObject().(*corev1.Node)
		f(n)
		if _, err = r.Update(r.Context(), at, n, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			r.tolerate("change node", err)
			return
		}
	}
}
