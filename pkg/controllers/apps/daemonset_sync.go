package apps

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// templateGenerationLabel is the label of a pod with the DaemonSet's template generation. It is deprecated for hashLabel.
const templateGenerationLabel = "pod-template-generation"

// hashLabel is the label of a DaemonSet's pods and revisions with the hash of the template.
const hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey

// daemonSync is what a sync of a DaemonSet observes. Plans are functions of it.
type daemonSync struct {
	set        *appsv1.DaemonSet
	hash       string // of the current revision
	generation string // of the template, "" if unknown
	now        time.Time
	nodes      []daemonNode // sorted by name
	pods       []*corev1.Pod
}

// daemonNode is a node with the DaemonSet's pods.
type daemonNode struct {
	name    string
	deleted bool          // the node does not exist, only its pods do
	run     bool          // the node needs a pod
	stay    bool          // a pod on the node may stay
	pods    []*corev1.Pod // in the order of compareDaemons
	live    []*corev1.Pod // those of pods that are not being deleted
}

// observe returns what the caches show of a DaemonSet, after adoption and release of pods.
func (r *daemonSet) observe(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, hash string) (*daemonSync, error) {
	pods, err := r.claim(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	s := newDaemonSync(set, hash, r.nodes.List("", nil), pods)
	s.now = r.clock.Now()
	for _, p := range pods {
		if _, err := targetNode(p); err != nil {
			slog.DebugContext(ctx, "daemonset pod without a node", "pod", p.Name, "err", err)
		}
	}
	return s, nil
}

func newDaemonSync(set *appsv1.DaemonSet, hash string, nodes []*corev1.Node, pods []*corev1.Pod) *daemonSync {
	s := &daemonSync{set: set, hash: hash, pods: pods}
	if n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64); err == nil {
		s.generation = strconv.FormatInt(n, 10)
	}
	byName := make(map[string]*daemonNode, len(nodes))
	eligible := newEligibility(&set.Spec.Template)
	for _, node := range nodes {
		run, stay := eligible.check(node)
		byName[node.Name] = &daemonNode{name: node.Name, run: run, stay: stay}
	}
	for _, p := range pods {
		if controller.IsPodTerminal(p) && p.DeletionTimestamp != nil {
			continue // it has ended and only waits for its removal
		}
		name, err := targetNode(p)
		if err != nil {
			continue
		}
		if byName[name] == nil {
			byName[name] = &daemonNode{name: name, deleted: true}
		}
		byName[name].pods = append(byName[name].pods, p)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		n := byName[name]
		slices.SortFunc(n.pods, compareDaemons)
		for _, p := range n.pods {
			if p.DeletionTimestamp == nil {
				n.live = append(n.live, p)
			}
		}
		s.nodes = append(s.nodes, *n)
	}
	return s
}

// compareDaemons orders pods that are bound to a node before others, then by age, the oldest first.
func compareDaemons(a, b *corev1.Pod) int {
	if boundA, boundB := a.Spec.NodeName != "", b.Spec.NodeName != ""; boundA != boundB {
		if boundA {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// isUpdated reports whether a pod is of the current template.
func (s *daemonSync) isUpdated(p *corev1.Pod) bool {
	return s.hash != "" && p.Labels[hashLabel] == s.hash || s.generation != "" && p.Labels[templateGenerationLabel] == s.generation
}

func (s *daemonSync) isAvailable(p *corev1.Pod) bool {
	ok, _ := controller.PodAvailable(p, s.minReady(), s.now)
	return ok
}

func (s *daemonSync) minReady() time.Duration {
	return time.Duration(s.set.Spec.MinReadySeconds) * time.Second
}

// desired returns the number of nodes that need a pod.
func (s *daemonSync) desired() int {
	n := 0
	for _, node := range s.nodes {
		if node.run {
			n++
		}
	}
	return n
}

// newPod returns the pod for a node.
func (s *daemonSync) newPod(node string) *corev1.Pod {
	p := controller.NewPod(&s.set.Spec.Template, s.set, daemonSetKind)
	p.Spec.Tolerations = daemonTolerations(&p.Spec)
	bindTo(&p.Spec, node)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	if s.generation != "" {
		p.Labels[templateGenerationLabel] = s.generation
	}
	if s.hash != "" {
		p.Labels[hashLabel] = s.hash
	}
	return p
}
