package schedplugins

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// fit filters out nodes without enough free resources for the pod's requests, and scores the others by the usage of
// their resources.
type fit struct {
	cooperative
	local
	ignored       map[corev1.ResourceName]bool
	ignoredGroups map[string]bool
	resources     []measured
	rate          func([]usage) int64
	ratePlacement func([]usage) int64 // fullest first, whatever the strategy for nodes
	classes       framework.DeviceClassResolver
}

func defaultFit() configv1.NodeResourcesFitArgs {
	return configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{Type: configv1.LeastAllocated}}
}

func newFit(args configv1.NodeResourcesFitArgs, h framework.Handle) (framework.Plugin, error) {
	if managed, ok := h.(scheduler.ExtenderHandle); ok {
		if ignored := managed.IgnoredResources(); len(ignored) > 0 {
			args.IgnoredResources = ignored // those of extenders replace the configured ones, as in Kubernetes
		}
	}
	p := &fit{ignored: map[corev1.ResourceName]bool{}, ignoredGroups: map[string]bool{}, classes: h.SharedDRAManager().DeviceClassResolver()}
	var errs field.ErrorList
	for _, r := range args.IgnoredResources {
		p.ignored[corev1.ResourceName(r)] = true
	}
	for i, g := range args.IgnoredResourceGroups {
		if strings.Contains(g, "/") {
			errs = append(errs, field.Invalid(field.NewPath("ignoredResourceGroups").Index(i), g, "resource group name can't contain '/'"))
		}
		p.ignoredGroups[g] = true
	}
	strategy := args.ScoringStrategy
	if strategy == nil {
		strategy = defaultFit().ScoringStrategy
	}
	var wrong field.ErrorList
	path := field.NewPath("scoringStrategy")
	p.resources, wrong = measure(path.Child("resources"), strategy.Resources)
	errs = append(errs, wrong...)
	p.rate, wrong = rater(path, strategy)
	errs = append(errs, wrong...)
	p.ratePlacement, wrong = rater(path, &configv1.ScoringStrategy{Type: configv1.MostAllocated})
	if errs = append(errs, wrong...); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return p, nil
}

func (*fit) Name() string { return "NodeResourcesFit" }

// wanted are a pod's requests in the form that Filter compares.
type wanted struct {
	cpu, memory, storage int64
	scalar               []amount // by name
}

type amount struct {
	name  corev1.ResourceName
	value int64
}

// Clone implements framework.StateData; the value never changes.
func (w *wanted) Clone() framework.StateData { return w }

const (
	wantedKey   framework.StateKey = "PreFilterNodeResourcesFit"
	fitScoreKey framework.StateKey = "PreScoreNodeResourcesFit"
)

func wantedBy(pod *corev1.Pod) *wanted {
	w := &wanted{}
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}) {
		switch name {
		case corev1.ResourceCPU:
			w.cpu = q.MilliValue()
		case corev1.ResourceMemory:
			w.memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			w.storage = q.Value()
		case corev1.ResourcePods:
		default:
			if v := q.Value(); v != 0 {
				w.scalar = append(w.scalar, amount{name, v})
			}
		}
	}
	slices.SortFunc(w.scalar, func(a, b amount) int { return strings.Compare(string(a.name), string(b.name)) })
	return w
}

func (p *fit) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	state.Write(wantedKey, wantedBy(pod))
	return nil, nil
}

func (*fit) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (p *fit) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	var w *wanted
	if s, err := state.Read(wantedKey); err == nil {
		w = s.(*wanted)
	} else {
		w = wantedBy(pod)
	}
	var reasons []string
	code := framework.Unschedulable
	p.lacks(w, node, func(reason string, never bool) {
		reasons = append(reasons, reason)
		if never {
			code = framework.UnschedulableAndUnresolvable
		}
	})
	if len(reasons) == 0 {
		return nil
	}
	return framework.NewStatus(code, reasons...)
}

// lacks returns the resources of which the node has too little free; never means that the pod would not fit on the
// empty node either.
func (p *fit) lacks(w *wanted, node framework.NodeInfo, report func(reason string, never bool)) {
	have, used := node.GetAllocatable(), node.GetRequested()
	if len(node.GetPods())+1 > have.GetAllowedPodNumber() {
		report("Too many pods", false)
	}
	check := func(name corev1.ResourceName, want, total, taken int64) {
		if want > 0 && want > total-taken {
			report("Insufficient "+string(name), want > total)
		}
	}
	check(corev1.ResourceCPU, w.cpu, have.GetMilliCPU(), used.GetMilliCPU())
	check(corev1.ResourceMemory, w.memory, have.GetMemory(), used.GetMemory())
	check(corev1.ResourceEphemeralStorage, w.storage, have.GetEphemeralStorage(), used.GetEphemeralStorage())
	for _, s := range w.scalar {
		if total := have.GetScalarResources()[s.name]; !p.ignores(s.name) && !p.delegates(s.name, total) {
			check(s.name, s.value, total, used.GetScalarResources()[s.name])
		}
	}
}

// delegates reports whether a pod gets devices for a resource on a node, which has the amount total of it: DynamicResources looks whether there
// are any.
func (p *fit) delegates(name corev1.ResourceName, total int64) bool {
	return total <= 0 && p.classes.GetDeviceClass(name) != nil
}

// ignores reports whether the configuration ignores an extended resource.
func (p *fit) ignores(name corev1.ResourceName) bool {
	if !scheduler.ExtendedResource(name) {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return p.ignored[name] || p.ignoredGroups[group]
}

func (p *fit) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) *framework.Status {
	state.Write(fitScoreKey, requestOf(pod, p.resources, true))
	return nil
}

func (p *fit) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	var a podRequest
	if s, err := state.Read(fitScoreKey); err == nil {
		a = s.(podRequest)
	} else {
		a = requestOf(pod, p.resources, true)
	}
	var b1, b2 [4]usage
	with, _ := usageOn(node, a, p.resources, true, b1[:], b2[:])
	return p.rate(with), nil
}

func (*fit) ScoreExtensions() framework.ScoreExtensions { return nil }

// ScorePlacement prefers the placement whose nodes, taken together, are the fullest with the pods of the group.
func (p *fit) ScorePlacement(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, placement *framework.PodGroupAssignments) (int64, *framework.Status) {
	wanted := make(podRequest, len(p.resources))
	for _, a := range placement.ProposedAssignments {
		for i, v := range requestOf(a.GetPod(), p.resources, true) {
			wanted[i] += v
		}
	}
	var sums []usage
	for i, r := range p.resources {
		if wanted[i] == 0 && scheduler.ExtendedResource(r.name) {
			continue
		}
		sum := usage{requested: wanted[i], weight: r.weight}
		for _, node := range placement.Nodes {
			if there, taken := amounts(node, r.name, true); there > 0 {
				sum.allocatable += there
				sum.requested += taken
			}
		}
		if sum.allocatable > 0 {
			sums = append(sums, sum)
		}
	}
	return p.ratePlacement(sums), nil
}

func (*fit) PlacementScoreExtensions() framework.PlacementScoreExtensions { return nil }

func (p *fit) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if delegated(pod, p.classes) {
		return nil, unsignedDevices()
	}
	return requestsSignature(pod)
}

func (p *fit) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.Pod, framework.Delete|framework.UpdatePodScaleDown, p.freed),
		on(framework.Node, framework.Add|framework.UpdateNodeAllocatable, p.larger),
		on(framework.DeviceClass, framework.Add|framework.Update, afterClass),
	}, nil
}

// afterClass reports whether a class that was added, or that has got another extendedResourceName, provides a resource that the pod requests.
func afterClass(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	class, ok := now.(*resourcev1.DeviceClass)
	if !ok {
		return framework.Queue, nil
	}
	names := map[corev1.ResourceName]bool{}
	if resource := class.Spec.ExtendedResourceName; resource != nil {
		names[corev1.ResourceName(*resource)] = true
	}
	if was, ok := old.(*resourcev1.DeviceClass); !ok {
		names[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class.Name)] = true
	} else if resource := was.Spec.ExtendedResourceName; resource != nil {
		delete(names, corev1.ResourceName(*resource))
	}
	return queueIf(slices.ContainsFunc(wantedBy(pod).scalar, func(a amount) bool { return names[a.name] })), nil
}

// freed reports whether a pod that was deleted, or now requests less, frees a resource that this pod requests.
func (p *fit) freed(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	was, is := podOf(old), podOf(now)
	if is != nil && is.UID == pod.UID {
		return framework.Queue, nil
	}
	if was == nil || was.Spec.NodeName == "" {
		return framework.QueueSkip, nil
	}
	if is == nil {
		return framework.Queue, nil // frees at least one of the node's pods
	}
	before, after, want := wantedBy(was), wantedBy(is), wantedBy(pod)
	return queueIf(want.cpu > 0 && after.cpu < before.cpu || want.memory > 0 && after.memory < before.memory ||
		want.storage > 0 && after.storage < before.storage || len(want.scalar) > 0), nil
}

// larger reports whether a node that was added, or has more than before, could fit this pod if it were empty.
func (p *fit) larger(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	node := nodeOf(now)
	want := wantedBy(pod)
	if node == nil || !p.couldHold(want, node) {
		return framework.QueueSkip, nil
	}
	was := nodeOf(old)
	if was == nil {
		return framework.Queue, nil
	}
	for _, s := range want.scalar {
		if q := node.Status.Allocatable[s.name]; p.delegates(s.name, q.Value()) {
			return framework.Queue, nil
		}
	}
	for name, q := range node.Status.Allocatable {
		if before := was.Status.Allocatable[name]; q.Cmp(before) > 0 {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, nil
}

func (p *fit) couldHold(w *wanted, node *corev1.Node) bool {
	have := node.Status.Allocatable
	if have.Pods().Value() < 1 || w.cpu > have.Cpu().MilliValue() || w.memory > have.Memory().Value() || w.storage > have.StorageEphemeral().Value() {
		return false
	}
	for _, s := range w.scalar {
		if q := have[s.name]; !p.ignores(s.name) && !p.delegates(s.name, q.Value()) && s.value > q.Value() {
			return false
		}
	}
	return true
}
