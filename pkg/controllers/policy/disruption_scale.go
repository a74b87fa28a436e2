package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// owner is a workload that controls pods, and how many it should have.
type owner struct {
	uid      types.UID
	replicas int32
}

// expectedScale returns the sum of the replicas of the workloads that control the pods. unmanaged reports whether some pods have no
// controller.
func (r *disruption) expectedScale(ctx context.Context, pods []*corev1.Pod) (expected int32, unmanaged bool, err error) {
	seen := map[types.UID]bool{}
	owners := map[types.UID]int32{}
	for _, p := range pods {
		ref := metav1.GetControllerOfNoCopy(p)
		switch {
		case ref == nil:
			unmanaged = true
		case !seen[ref.UID]:
			found, err := r.ownerOf(ctx, ref, p.Namespace)
			if err != nil {
				return 0, false, err
			}
			if found == nil {
				return 0, false, fmt.Errorf("found no controllers for pod %q", p.Name)
			}
			seen[ref.UID] = true
			owners[found.uid] = found.replicas
		}
	}
	for _, n := range owners {
		expected += n
	}
	return expected, unmanaged, nil
}

// ownerOf returns the workload that a controller reference leads to: the Deployment of a ReplicaSet that has one, else the referenced
// object. It returns nil if that does not exist. Workloads of other kinds than the built-in ones are read by their scale subresource.
func (r *disruption) ownerOf(ctx context.Context, ref *metav1.OwnerReference, namespace string) (*owner, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	var found *owner
	key := objects.Key{Namespace: namespace, Name: ref.Name}
	switch kind := gv.WithKind(ref.Kind).GroupKind(); {
	case kind == schema.GroupKind{Kind: "ReplicationController"}:
		found = cached(r.controllers, key, ref.UID, func(o *corev1.ReplicationController) *int32 { return o.Spec.Replicas })
	case isReplicaSet(kind):
		found, err = r.ofReplicaSet(key, ref.UID)
	case kind == schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		found = cached(r.statefulSets, key, ref.UID, func(o *appsv1.StatefulSet) *int32 { return o.Spec.Replicas })
	}
	if found != nil || err != nil {
		return found, err
	}
	return r.readScale(ctx, ref, namespace)
}

func isReplicaSet(k schema.GroupKind) bool {
	return k.Kind == "ReplicaSet" && (k.Group == "apps" || k.Group == "extensions")
}

// ofReplicaSet returns the Deployment of a ReplicaSet, or the set itself if no Deployment controls it.
func (r *disruption) ofReplicaSet(key objects.Key, uid types.UID) (*owner, error) {
	set, ok := r.replicaSets.Get(key)
	if !ok || set.UID != uid {
		return nil, nil
	}
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil || ref.Kind != "Deployment" {
		return &owner{set.UID, *set.Spec.Replicas}, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Group != "apps" && gv.Group != "extensions" {
		return nil, err
	}
	return cached(r.deployments, objects.Key{Namespace: key.Namespace, Name: ref.Name}, ref.UID, func(o *appsv1.Deployment) *int32 { return o.Spec.Replicas }), nil
}

// cached returns the workload of a key if it has that UID.
func cached[T objects.Object](c *client.Cache[T], key objects.Key, uid types.UID, replicas func(T) *int32) *owner {
	obj, ok := c.Get(key)
	if !ok || obj.GetUID() != uid {
		return nil
	}
	return &owner{uid, *replicas(obj)}
}

// readScale reads the scale subresource of a referenced object. It returns nil if the object does not exist.
func (r *disruption) readScale(ctx context.Context, ref *metav1.OwnerReference, namespace string) (*owner, error) {
	resource, err := r.scalable(ref)
	if err != nil {
		return nil, err
	}
	obj, err := r.client.Get(ctx, client.Target{Resource: resource, Namespace: namespace, Name: ref.Name, Subresource: "scale"}, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, ok := obj.(*autoscalingv1.Scale)
	switch {
	case !ok:
		return nil, fmt.Errorf("the scale of %s %q is a %T", resource.GroupResource(), ref.Name, obj)
	case s.UID != ref.UID:
		return nil, nil
	}
	return &owner{s.UID, s.Spec.Replicas}, nil
}

// scalable returns the resource of a referenced kind, which must have the scale subresource. It reads discovery each time, since
// definitions come and go, and few pods have such owners.
func (r *disruption) scalable(ref *metav1.OwnerReference) (schema.GroupVersionResource, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	noMatch := &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	d, err := r.describe()
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	list, err := d.ServerResourcesForGroupVersion(ref.APIVersion)
	if apierrors.IsNotFound(err) {
		return schema.GroupVersionResource{}, noMatch
	}
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	named := func(match func(metav1.APIResource) bool) int { return slices.IndexFunc(list.APIResources, match) }
	i := named(func(a metav1.APIResource) bool { return a.Kind == ref.Kind && !strings.Contains(a.Name, "/") })
	if i < 0 {
		return schema.GroupVersionResource{}, noMatch
	}
	resource := gvk.GroupVersion().WithResource(list.APIResources[i].Name)
	if named(func(a metav1.APIResource) bool { return a.Name == resource.Resource+"/scale" && a.Kind == "Scale" }) < 0 {
		return schema.GroupVersionResource{}, fmt.Errorf("%s does not implement the scale subresource", resource.GroupResource())
	}
	return resource, nil
}
