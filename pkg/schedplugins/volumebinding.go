package schedplugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// volumeBinding keeps pods on the nodes that have the volumes of their claims. For claims that wait for their first pod it chooses
// volumes of the node, or has one provisioned there. It reads claims and volumes from the API, and only for pods that have claims.
type volumeBinding struct {
	cooperative
	local
	handle  framework.Handle
	timeout time.Duration

	mu      sync.Mutex
	volumes map[string]string // the volumes that reserved pods are about to bind, each with its claim
	nodes   map[string]string // the claims that reserved pods are about to have provisioned, each with its node
}

func defaultVolumeBinding() configv1.VolumeBindingArgs {
	return configv1.VolumeBindingArgs{BindTimeoutSeconds: new(int64(600))}
}

func newVolumeBinding(args configv1.VolumeBindingArgs, h framework.Handle) (framework.Plugin, error) {
	if args.BindTimeoutSeconds == nil {
		args.BindTimeoutSeconds = defaultVolumeBinding().BindTimeoutSeconds
	}
	if *args.BindTimeoutSeconds < 0 {
		return nil, field.Invalid(field.NewPath("bindTimeoutSeconds"), *args.BindTimeoutSeconds, "invalid BindTimeoutSeconds, should not be a negative value")
	}
	return &volumeBinding{
		handle: h, timeout: time.Duration(*args.BindTimeoutSeconds) * time.Second, volumes: map[string]string{}, nodes: map[string]string{},
	}, nil
}

func (*volumeBinding) Name() string { return "VolumeBinding" }

// SkipsBinding implements scheduler.SkipsBinding: pods without claims have nothing to bind.
func (*volumeBinding) SkipsBinding() {}

const volumeBindingState framework.StateKey = "VolumeBinding"

// podVolumes is what one scheduling cycle knows of a pod's claims. Filter is called for several nodes at the same time.
type podVolumes struct {
	claims  []*corev1.PersistentVolumeClaim    // that wait for the pod, the smallest request first
	classes map[string]*storagev1.StorageClass // of claims
	bound   []*corev1.PersistentVolume         // of the other claims
	missing bool                               // a claim's volume does not exist
	free    []*corev1.PersistentVolume         // by name
	mu      sync.Mutex
	nodes   map[string]nodeVolumes
}

// Clone implements framework.StateData. The data of a pod does not depend on other pods.
func (s *podVolumes) Clone() framework.StateData { return s }

// nodeVolumes is what a pod's claims get on one node.
type nodeVolumes struct {
	bind      []match
	provision []*corev1.PersistentVolumeClaim
}

// match is a claim and the volume that it gets.
type match struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

// claimNames returns the claims of a pod's volumes.
func claimNames(pod *corev1.Pod) (names []string, owned map[string]bool) {
	owned = map[string]bool{}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			name := ephemeral.VolumeClaimName(pod, v)
			names, owned[name] = append(names, name), true
		}
	}
	return names, owned
}

func (b *volumeBinding) PreFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	names, owned := claimNames(pod)
	if len(names) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	s := &podVolumes{classes: map[string]*storagev1.StorageClass{}, nodes: map[string]nodeVolumes{}}
	var all []*corev1.PersistentVolumeClaim
	for _, name := range names {
		claim, err := b.claim(ctx, pod, name, owned[name])
		if err != nil {
			return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
		}
		all = append(all, claim)
	}
	for _, claim := range all {
		wait, err := b.add(ctx, s, claim)
		if err != nil {
			return nil, framework.AsStatus(err)
		}
		if !wait {
			return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "pod has unbound immediate PersistentVolumeClaims")
		}
	}
	if err := b.addFree(ctx, s); err != nil {
		return nil, framework.AsStatus(err)
	}
	state.Write(volumeBindingState, s)
	return nil, nil
}

func (*volumeBinding) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// claim returns a claim of a pod, and an error if a pod can't use it.
func (b *volumeBinding) claim(ctx context.Context, pod *corev1.Pod, name string, owned bool) (*corev1.PersistentVolumeClaim, error) {
	claim, err := claimOf(ctx, b.handle, pod.Namespace, name)
	switch {
	case owned && errors.Is(err, missingClaim(name)):
		return nil, fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case err != nil:
		return nil, err
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	case owned:
		return claim, ephemeral.VolumeIsForPod(pod, claim)
	}
	return claim, nil
}

// add sorts a claim into those that are bound and those that wait for the pod. It returns false for a claim that is not bound and
// does not wait for a pod.
func (b *volumeBinding) add(ctx context.Context, s *podVolumes, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim.Spec.VolumeName != "" {
		if !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) {
			return false, nil
		}
		v, err := volumeOf(ctx, b.handle, claim.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			s.missing = true
			return true, nil
		}
		s.bound = append(s.bound, v)
		return true, err
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return false, nil
	}
	class, err := storageClassOf(ctx, b.handle, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return false, nil
	}
	s.claims, s.classes[name] = append(s.claims, claim), class
	return true, nil
}

// addFree adds the volumes that the waiting claims may get.
func (b *volumeBinding) addFree(ctx context.Context, s *podVolumes) error {
	if len(s.claims) == 0 {
		return nil
	}
	slices.SortStableFunc(s.claims, func(x, y *corev1.PersistentVolumeClaim) int {
		return x.Spec.Resources.Requests.Storage().Cmp(*y.Spec.Resources.Requests.Storage())
	})
	all, err := volumes(ctx, b.handle)
	if err != nil {
		return err
	}
	for v := range all {
		if ref := v.Spec.ClaimRef; ref != nil { // the volume may have another class
			if slices.ContainsFunc(s.claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == ref.Name && c.Namespace == ref.Namespace }) {
				s.free = append(s.free, v)
			}
		} else if _, ok := s.classes[volume.GetPersistentVolumeClass(v)]; ok {
			s.free = append(s.free, v)
		}
	}
	slices.SortFunc(s.free, func(x, y *corev1.PersistentVolume) int { return cmp.Compare(x.Name, y.Name) })
	return nil
}

func (b *volumeBinding) Filter(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) *framework.Status {
	data, err := state.Read(volumeBindingState)
	if err != nil {
		return framework.AsStatus(err)
	}
	pod, node := data.(*podVolumes), info.Node()
	b.mu.Lock()
	taken, selected := map[string]*corev1.PersistentVolume{}, map[string]string{}
	for _, v := range pod.free {
		if _, ok := b.volumes[v.Name]; ok {
			taken[v.Name] = v
		}
	}
	for _, c := range pod.claims {
		if n, ok := b.nodes[claimKey(c)]; ok {
			selected[claimKey(c)] = n
		}
	}
	b.mu.Unlock()
	found, reasons, err := findVolumes(pod, node, taken, selected)
	if err != nil {
		return framework.AsStatus(err)
	}
	if len(reasons) > 0 {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, reasons...)
	}
	if reason := b.neverProvisioned(found.provision, pod.classes); reason != "" {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)
	}
	pod.mu.Lock()
	pod.nodes[node.Name] = found
	pod.mu.Unlock()
	return nil
}

func claimKey(c *corev1.PersistentVolumeClaim) string { return c.Namespace + "/" + c.Name }

// The reasons why a pod's claims don't fit a node.
const (
	volumeConflict = "node(s) didn't find available persistent volumes to bind"
	nodeConflict   = "node(s) didn't match PersistentVolume's node affinity"
	volumeMissing  = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// findVolumes returns what the claims of a pod get on a node, and the reasons if the node does not fit. taken are the volumes that
// other pods have reserved, selected the nodes of claims that other pods have reserved.
func findVolumes(s *podVolumes, node *corev1.Node, taken map[string]*corev1.PersistentVolume, selected map[string]string) (found nodeVolumes, reasons []string, err error) {
	if s.missing {
		return found, []string{volumeMissing}, nil
	}
	for _, v := range s.bound {
		if volume.CheckNodeAffinity(v, node.Labels) != nil {
			reasons = append(reasons, nodeConflict)
			break
		}
	}
	for _, claim := range s.claims {
		at := cmp.Or(selected[claimKey(claim)], claim.Annotations[volume.AnnSelectedNode])
		if at != "" && at != node.Name {
			return found, append(reasons, volumeConflict), nil
		}
		if at == "" {
			v, err := volume.FindMatchingVolume(claim, s.free, node, taken, false, true)
			if err != nil {
				return found, nil, err
			}
			if v != nil {
				taken[v.Name] = v
				found.bind = append(found.bind, match{claim, v})
				continue
			}
		}
		class := s.classes[volume.GetPersistentVolumeClaimClass(claim)]
		if class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner || !inTopologies(class.AllowedTopologies, node) {
			return found, append(reasons, volumeConflict), nil
		}
		found.provision = append(found.provision, claim)
	}
	return found, reasons, nil
}

// inTopologies reports whether a node is in one of a class's topologies. Without any, all nodes are.
func inTopologies(terms []corev1.TopologySelectorTerm, node *corev1.Node) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			has := labels.Set(node.Labels)
			return !has.Has(e.Key) || !slices.Contains(e.Values, has.Get(e.Key))
		})
	})
}

// chosen returns what the pod's claims get on the node, false if the pod has no waiting claims.
func (*volumeBinding) chosen(state framework.CycleState, node string) (nodeVolumes, bool) {
	data, err := state.Read(volumeBindingState)
	if err != nil {
		return nodeVolumes{}, false // Skip: no claims
	}
	s := data.(*podVolumes)
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.nodes[node]
	return v, len(v.bind)+len(v.provision) > 0
}

func (b *volumeBinding) Reserve(_ context.Context, state framework.CycleState, _ *corev1.Pod, node string) *framework.Status {
	v, _ := b.chosen(state, node)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range v.bind {
		if other, ok := b.volumes[m.volume.Name]; ok && other != claimKey(m.claim) {
			return framework.NewStatus(framework.Unschedulable, volumeConflict)
		}
	}
	for _, m := range v.bind {
		b.volumes[m.volume.Name] = claimKey(m.claim)
	}
	for _, c := range v.provision {
		b.nodes[claimKey(c)] = node
	}
	return nil
}

func (b *volumeBinding) Unreserve(_ context.Context, state framework.CycleState, _ *corev1.Pod, node string) {
	b.forget(state, node)
}

// PostBind ends the reservation: the API has the bindings now.
func (b *volumeBinding) PostBind(_ context.Context, state framework.CycleState, _ *corev1.Pod, node string) {
	b.forget(state, node)
}

func (b *volumeBinding) forget(state framework.CycleState, node string) {
	v, _ := b.chosen(state, node)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range v.bind {
		if b.volumes[m.volume.Name] == claimKey(m.claim) {
			delete(b.volumes, m.volume.Name)
		}
	}
	for _, c := range v.provision {
		delete(b.nodes, claimKey(c))
	}
}

func (b *volumeBinding) PreBindPreFlight(_ context.Context, state framework.CycleState, _ *corev1.Pod, node string) (*framework.PreBindPreFlightResult, *framework.Status) {
	if _, ok := b.chosen(state, node); !ok {
		return nil, framework.NewStatus(framework.Skip)
	}
	return &framework.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind has the pod's claims bound: it names the claim in each chosen volume and the node in each claim to provision, and waits until
// the binder has bound them.
func (b *volumeBinding) PreBind(ctx context.Context, state framework.CycleState, _ *corev1.Pod, node string) *framework.Status {
	v, ok := b.chosen(state, node)
	if !ok {
		return nil
	}
	if err := b.request(ctx, v, node); err != nil {
		return framework.AsStatus(err)
	}
	if err := b.awaitBound(ctx, v, node); err != nil {
		return framework.AsStatus(fmt.Errorf("binding volumes: %w", err))
	}
	return nil
}

func (b *volumeBinding) request(ctx context.Context, v nodeVolumes, node string) error {
	core := b.handle.ClientSet().CoreV1()
	for _, m := range v.bind {
		next, dirty, err := volume.GetBindVolumeToClaim(m.volume, m.claim)
		if err != nil {
			return err
		}
		if !dirty {
			continue
		}
		if _, err := core.PersistentVolumes().Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	for _, c := range v.provision {
		if c.Annotations[volume.AnnSelectedNode] == node {
			continue
		}
		c = c.DeepCopy()
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, node)
		if _, err := core.PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (*volumeBinding) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signUnclaimed(pod)
}

func (*volumeBinding) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.StorageClass, framework.Add|framework.Update, nil),
		on(framework.PersistentVolumeClaim, framework.Add|framework.Update, afterClaim),
		on(framework.PersistentVolume, framework.Add|framework.Update, nil),
		on(framework.Node, framework.Add|framework.UpdateNodeLabel, nil),
	}, nil
}

// afterClaim queues the pods that use a changed claim.
func afterClaim(_ klog.Logger, pod *corev1.Pod, _, changed any) (framework.QueueingHint, error) {
	claim, ok := changed.(*corev1.PersistentVolumeClaim)
	names, _ := claimNames(pod)
	return queueIf(!ok || claim.Namespace == pod.Namespace && slices.Contains(names, claim.Name)), nil
}
