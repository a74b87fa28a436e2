package apps

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// comparisonTolerations is whether tolerations may compare numbers (Lt, Gt): the feature is off by default in 1.36.
const comparisonTolerations = false

// eligibility decides which nodes the pods of one template may run on.
type eligibility struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func newEligibility(template *corev1.PodTemplateSpec) eligibility {
	return eligibility{
		nodeName:    template.Spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: template.Spec}),
		tolerations: daemonTolerations(&template.Spec),
	}
}

// check returns whether a node needs a pod (run), and whether a pod that it has may stay (stay). A pod that does not tolerate a
// NoSchedule taint may stay.
func (e eligibility) check(node *corev1.Node) (run, stay bool) {
	if e.nodeName != "" && e.nodeName != node.Name {
		return false, false
	}
	if matches, _ := e.affinity.Match(node); !matches { // an affinity that can't be parsed matches no node
		return false, false
	}
	if e.tolerates(node, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule) {
		return true, true
	}
	return false, e.tolerates(node, corev1.TaintEffectNoExecute)
}

// tolerates reports whether the node's taints with one of the effects are tolerated.
func (e eligibility) tolerates(node *corev1.Node, effects ...corev1.TaintEffect) bool {
	_, untolerated := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, e.tolerations, func(t *corev1.Taint) bool {
		for _, effect := range effects {
			if t.Effect == effect {
				return true
			}
		}
		return false
	}, comparisonTolerations)
	return !untolerated
}

// daemonTolerations returns the tolerations of a pod of a DaemonSet: those of its template, and those that keep it on nodes that are
// not ready, under pressure or cordoned.
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	out := spec.Tolerations
	add := func(key string, effect corev1.TaintEffect) {
		out = withToleration(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return out
}

// withToleration returns list with t, in the place of the tolerations that differ from t only in tolerationSeconds, else at the end.
// list is not changed.
func withToleration(list []corev1.Toleration, t corev1.Toleration) []corev1.Toleration {
	out := make([]corev1.Toleration, 0, len(list)+1)
	found := false
	for i := range list {
		if !t.MatchToleration(&list[i]) {
			out = append(out, list[i])
			continue
		}
		if equality.Semantic.DeepEqual(t, list[i]) {
			return list
		}
		found = true
		out = append(out, t)
	}
	if !found {
		out = append(out, t)
	}
	return out
}

// bindTo replaces the terms of the pod's required node affinity by one that only the node matches: the scheduler binds it there.
func bindTo(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}},
	}
}

// targetNode returns the node that a pod is bound to, or that bindTo has named.
func targetNode(p *corev1.Pod) (string, error) {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName, nil
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range term.MatchFields {
				if f.Key != metav1.ObjectNameField || f.Operator != corev1.NodeSelectorOpIn {
					continue
				}
				if len(f.Values) != 1 {
					return "", fmt.Errorf("node affinity to %d nodes", len(f.Values))
				}
				return f.Values[0], nil
			}
		}
	}
	return "", errors.New("no node affinity to one node")
}
