package whatif

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
)

// perfRun is a run of a workload of scheduler_perf.
type perfRun struct {
	player     *Player
	cluster    Cluster // its PriorityClasses
	podRow     objects.Resource
	op         int // the number of the present operation
	made       int // objects with a generated name
	namespaces map[string]bool
	expected   map[string]int // by namespace: the pods for which a barrier waits
	names      map[string]types.UID
	nodes      map[string]*corev1.Node
}

func newPerfRun(p *Player) *perfRun {
	return &perfRun{player: p, podRow: objects.Row(core.Pods), namespaces: map[string]bool{}, expected: map[string]int{}, names: map[string]types.UID{}, nodes: map[string]*corev1.Node{}}
}

// stopped is the error of a workload that waits for something that does not happen.
type stopped struct{ error }

// run runs the operations.
func (r *perfRun) run(ctx context.Context, ops []perfOp) error {
	for i, op := range ops {
		if err := op.run(ctx, r); err != nil {
			return fmt.Errorf("workloadTemplate[%d]: %w", i, err)
		}
		r.op++
	}
	return nil
}

// maxWait is how long operations wait for pods, as in scheduler_perf.
const maxWait = 10 * time.Minute

// wait waits until have is at least want.
func (r *perfRun) wait(ctx context.Context, what string, counts func() (have, want int)) error {
	done, err := r.player.Run(ctx, func() bool { have, want := counts(); return have >= want }, r.player.Elapsed()+maxWait)
	if err != nil || done {
		return err
	}
	have, want := counts()
	return stopped{fmt.Errorf("%d of %d %s are scheduled, and no more within %s", have, want, what, maxWait)}
}

// pause waits before one of so many actions a second; 0: not at all.
func (r *perfRun) pause(ctx context.Context, perSecond float64) error {
	if perSecond == 0 {
		return nil
	}
	return r.player.wait(ctx, r.player.Elapsed()+every(perSecond))
}

// collect begins to collect figures of the pods of namespaces.
func (r *perfRun) collect(namespaces []string, selector map[string]string) error {
	if r.player.collects != nil {
		return errors.New("figures are collected already")
	}
	r.player.Collect(func(pod *corev1.Pod) bool {
		return slices.Contains(namespaces, pod.Namespace) && matches(selector, pod.Labels)
	})
	return nil
}

func (r *perfRun) addNamespace(ns *corev1.Namespace) {
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
	r.namespaces[ns.Name] = true
	r.player.box.SetNamespace(ns)
	if _, ok := r.expected[ns.Name]; !ok {
		r.expected[ns.Name] = 0
	}
}

// ensureNamespace creates a namespace that is not there.
func (r *perfRun) ensureNamespace(name string) {
	if !r.namespaces[name] {
		r.addNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	r.expected[name] += 0
}

// generated returns the name of an object.
func (r *perfRun) generated(meta *metav1.ObjectMeta) string {
	if meta.Name != "" {
		return meta.Name
	}
	r.made++
	return fmt.Sprintf("%s%05d", meta.GenerateName, r.made)
}

// completeNode sets the name and the defaults of a node, and remembers it.
func (r *perfRun) completeNode(node *corev1.Node) {
	node.Name = r.generated(&node.ObjectMeta)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = maps.Clone(node.Status.Capacity)
	}
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = corev1.ResourceList{}
	}
	r.nodes[node.Name] = node
}

// makePod returns a pod of a template, or of scheduler_perf's own if it is nil, with its defaults and priority.
func (r *perfRun) makePod(t *perfTemplate, i, count int) (*corev1.Pod, error) {
	pod := defaultPod()
	if t != nil {
		var err error
		if pod, err = t.pod(i, count); err != nil {
			return nil, err
		}
	}
	pod.Name = r.generated(&pod.ObjectMeta)
	r.podRow.Default(pod)
	return pod, r.cluster.setPriority(pod)
}

// pod returns a pod of the template.
func (t *perfTemplate) pod(i, count int) (*corev1.Pod, error) {
	if t.static == nil {
		return decodeTemplate[corev1.Pod](t, i, count)
	}
	if t.first == nil {
		var err error
		if t.first, err = decodeTemplate[corev1.Pod](t, i, count); err != nil {
			return nil, err
		}
	}
	return t.first.DeepCopy(), nil
}

func defaultPod() *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("500Mi")}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pause",
		Image: "registry.k8s.io/pause", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Resources: corev1.ResourceRequirements{Limits: amounts, Requests: amounts}}}}}
}

func (r *perfRun) addPod(ctx context.Context, pod *corev1.Pod) error {
	key := pod.Namespace + "/" + pod.Name
	if _, there := r.player.pods[r.names[key]]; there {
		return fmt.Errorf("pod %s is there already", key)
	}
	err := r.player.AddPod(ctx, pod)
	r.names[key] = pod.UID
	return err
}

// create creates an object of a template, and returns a function that deletes it.
func (r *perfRun) create(ctx context.Context, t *perfTemplate, namespace string, i, count int) (remove func(context.Context), err error) {
	remove = func(context.Context) {}
	meta, err := decodeTemplate[metav1.PartialObjectMetadata](t, i, count)
	if err != nil {
		return nil, err
	}
	switch meta.Kind {
	case "Node":
		node, err := decodeTemplate[corev1.Node](t, i, count)
		if err != nil {
			return nil, err
		}
		r.completeNode(node)
		r.player.SetNode(ctx, node)
		return func(ctx context.Context) {
			delete(r.nodes, node.Name)
			r.player.DeleteNode(ctx, node.Name)
		}, nil
	case "Pod":
		pod, err := r.makePod(t, i, count)
		if err != nil {
			return nil, err
		}
		pod.Namespace = namespace
		return func(ctx context.Context) { r.deletePods(ctx, []types.UID{pod.UID}) }, r.addPod(ctx, pod)
	case "Namespace":
		ns, err := decodeTemplate[corev1.Namespace](t, i, count)
		if err == nil {
			r.addNamespace(ns)
		}
		return remove, err
	case "PriorityClass":
		class, err := decodeTemplate[schedulingv1.PriorityClass](t, i, count)
		r.cluster.Priorities = append(r.cluster.Priorities, class)
		return remove, err
	case "PodGroup":
		group, err := t.podGroup(namespace, i, count)
		if err == nil {
			r.player.SetPodGroup(ctx, group)
		}
		return remove, err
	}
	return remove, nil // a Service
}

// update replaces an object by one of a template.
func (r *perfRun) update(ctx context.Context, t *perfTemplate, namespace string, i, count int) error {
	meta, err := decodeTemplate[metav1.PartialObjectMetadata](t, i, count)
	if err != nil {
		return err
	}
	if meta.Kind == "Node" {
		node, err := decodeTemplate[corev1.Node](t, i, count)
		if err != nil {
			return err
		}
		if r.nodes[node.Name] == nil {
			return fmt.Errorf("%s: there is no node %q", t.path, node.Name)
		}
		r.completeNode(node)
		r.player.SetNode(ctx, node)
		return nil
	}
	pod, err := r.makePod(t, i, count)
	if err != nil {
		return err
	}
	pod.Namespace = namespace
	uid := r.names[namespace+"/"+pod.Name]
	if _, there := r.player.pods[uid]; !there {
		return fmt.Errorf("%s: there is no pod %q", t.path, namespace+"/"+pod.Name)
	}
	pod.UID = uid
	return r.player.UpdatePod(ctx, pod)
}

// podsOf returns the pods of a namespace that have the labels, in the order of their arrival.
func (r *perfRun) podsOf(namespace string, selector map[string]string) []types.UID {
	var out []types.UID
	for _, record := range r.player.records {
		if !record.gone && record.pod.Namespace == namespace && matches(selector, record.pod.Labels) {
			out = append(out, record.pod.UID)
		}
	}
	return out
}

// deletePods deletes pods. One with a finalizer stays if it has a node, since no controller removes the finalizer.
func (r *perfRun) deletePods(ctx context.Context, uids []types.UID) {
	for _, uid := range uids {
		if record, ok := r.player.pods[uid]; ok && (len(record.pod.Finalizers) == 0 || record.bound.IsZero()) {
			r.player.DeletePod(ctx, uid)
		}
	}
}
