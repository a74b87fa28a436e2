package schedplugins

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// volumeZone keeps pods on the nodes of the zones and regions that labels of their claims' volumes name. It reads claims and volumes from the
// API, and only for pods that have claims.
type volumeZone struct {
	cooperative
	local
	handle framework.Handle
}

func newVolumeZone(h framework.Handle) framework.Plugin { return volumeZone{handle: h} }

func (volumeZone) Name() string { return "VolumeZone" }

const volumeZoneState framework.StateKey = "VolumeZone"

// zoneTerm is a label of a volume: the node needs one of the values.
type zoneTerm struct {
	key    string
	values []string
}

// zoneTerms are the terms of all volumes of a pod.
type zoneTerms []zoneTerm

// Clone implements framework.StateData.
func (t zoneTerms) Clone() framework.StateData { return t }

// zoneLabels are the labels of zones and regions. Volumes may have the first two in place of the others.
var zoneLabels = []string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

func (z volumeZone) PreFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	var terms zoneTerms
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		found, status := z.termsOf(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		if status != nil {
			return nil, status
		}
		terms = append(terms, found...)
	}
	if len(terms) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(volumeZoneState, terms)
	return nil, nil
}

func (volumeZone) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// termsOf returns the terms of a claim's volume, none for a claim that waits for its first pod.
func (z volumeZone) termsOf(ctx context.Context, namespace, name string) (zoneTerms, *framework.Status) {
	claim, err := claimOf(ctx, z.handle, namespace, name)
	if err != nil {
		return nil, notFound(err)
	}
	if claim.Spec.VolumeName == "" {
		return nil, z.unbound(ctx, volume.GetPersistentVolumeClaimClass(claim))
	}
	v, err := volumeOf(ctx, z.handle, claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("persistentvolume %q not found", claim.Spec.VolumeName))
	}
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	return zoneTermsOf(v), nil
}

// unbound returns why a claim of a class has no volume though it does not wait for a pod, or nil.
func (z volumeZone) unbound(ctx context.Context, class string) *framework.Status {
	reject := func(format string, args ...any) *framework.Status {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(format, args...))
	}
	if class == "" {
		return reject("PersistentVolumeClaim had no pv name and storageClass name")
	}
	c, err := storageClassOf(ctx, z.handle, class)
	switch {
	case apierrors.IsNotFound(err):
		return reject("storageclass.storage.k8s.io %q not found", class)
	case err != nil:
		return framework.AsStatus(err)
	case c.VolumeBindingMode == nil:
		return reject("VolumeBindingMode not set for StorageClass %q", class)
	case *c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return reject("PersistentVolume had no name")
	}
	return nil
}

// zoneTermsOf returns the terms of a volume. Several zones are separated by two underscores.
func zoneTermsOf(v *corev1.PersistentVolume) (terms zoneTerms) {
	for _, key := range zoneLabels {
		value, ok := v.Labels[key]
		if !ok {
			continue
		}
		var values []string
		for _, zone := range strings.Split(value, "__") {
			values = append(values, strings.TrimSpace(zone))
		}
		if !slices.Contains(values, "") { // such a label is ignored
			terms = append(terms, zoneTerm{key, values})
		}
	}
	return terms
}

// Filter lets a node without zones and regions pass: the cluster may have only one.
func (volumeZone) Filter(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) *framework.Status {
	data, err := state.Read(volumeZoneState)
	if err != nil {
		return framework.AsStatus(err)
	}
	has := info.Node().Labels
	if !slices.ContainsFunc(zoneLabels, func(key string) bool { _, ok := has[key]; return ok }) {
		return nil
	}
	for _, term := range data.(zoneTerms) {
		value, ok := has[term.key]
		if !ok {
			value, ok = has[stableLabel(term.key)]
		}
		if !ok || !slices.Contains(term.values, value) {
			return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) had no available volume zone")
		}
	}
	return nil
}

// stableLabel returns the label that has replaced a beta label.
func stableLabel(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	}
	return key
}

// SignPod signs only pods without claims, since a claim may change.
func (volumeZone) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signUnclaimed(pod)
}

func (volumeZone) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	afterClass := func(_ klog.Logger, _ *corev1.Pod, _, added any) (framework.QueueingHint, error) {
		class, ok := added.(*storagev1.StorageClass)
		return queueIf(!ok || class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer), nil
	}
	afterVolume := func(_ klog.Logger, _ *corev1.Pod, old, changed any) (framework.QueueingHint, error) {
		before, _ := old.(*corev1.PersistentVolume)
		now, _ := changed.(*corev1.PersistentVolume)
		return queueIf(before == nil || now == nil || !slices.EqualFunc(zoneTermsOf(before), zoneTermsOf(now), func(a, b zoneTerm) bool {
			return a.key == b.key && slices.Equal(a.values, b.values)
		})), nil
	}
	return []framework.ClusterEventWithHint{
		on(framework.StorageClass, framework.Add, afterClass),
		on(framework.Node, framework.Add|framework.UpdateNodeLabel, nil),
		on(framework.PersistentVolumeClaim, framework.Add|framework.Update, afterClaim),
		on(framework.PersistentVolume, framework.Add|framework.Update, afterVolume),
	}, nil
}
