package authz

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// maxPaths bounds the number of cached paths.
const maxPaths = 1 << 16

// graph reports whether a pod that is bound to a node needs an object. It reads the objects themselves, so it is never stale,
// and caches only the pod through which a node reached an object, to check that pod first the next time.
type graph struct {
	reader stage.Reader

	mu    sync.Mutex
	paths map[path]string // the pod's name; its namespace is the object's
}

type vertex struct {
	resource        schema.GroupResource
	namespace, name string
}

type path struct {
	node string
	to   vertex
}

func newGraph(r stage.Reader) *graph { return &graph{reader: r, paths: map[path]string{}} }

func (g *graph) reaches(ctx context.Context, node string, v vertex) (bool, error) {
	switch v.resource {
	case pods:
		pod, err := g.pod(ctx, v.namespace, v.name)
		return pod != nil && pod.Spec.NodeName == node, err
	case volumes:
		return g.reachesVolume(ctx, node, v.name)
	case attachments, resourceSlices:
		return g.names(ctx, node, v)
	}
	p := path{node, v}
	g.mu.Lock()
	through, ok := g.paths[p]
	g.mu.Unlock()
	if ok {
		if pod, err := g.pod(ctx, v.namespace, through); err == nil && pod != nil && needs(pod, p) {
			return true, nil
		}
	}
	list, err := g.reader.List(ctx, pods, v.namespace)
	if err != nil {
		return false, err
	}
	for _, obj := range list {
		pod, ok := obj.(*corev1.Pod)
		if ok && needs(pod, p) {
			g.cache(p, pod.Name)
			return true, nil
		}
	}
	if v.resource == secrets {
		return g.reachesByVolume(ctx, node, v)
	}
	return false, nil
}

// names reports whether the object itself names the node.
func (g *graph) names(ctx context.Context, node string, v vertex) (bool, error) {
	obj, err := g.reader.Get(ctx, v.resource, objects.Key{Name: v.name})
	if err != nil {
		return false, absent(err)
	}
	switch o := obj.(type) {
	case *storagev1.VolumeAttachment:
		return o.Spec.NodeName == node, nil
	case *resourcev1.ResourceSlice:
		return o.Spec.NodeName != nil && *o.Spec.NodeName == node, nil
	}
	return false, nil
}

// reachesByVolume follows a Secret to the PersistentVolumes that refer to it.
func (g *graph) reachesByVolume(ctx context.Context, node string, v vertex) (bool, error) {
	list, err := g.reader.List(ctx, volumes, "")
	if err != nil {
		return false, absent(err)
	}
	for _, obj := range list {
		pv, ok := obj.(*corev1.PersistentVolume)
		if !ok || pv.Spec.ClaimRef == nil || !podref.VolumeNeeds(pv, v.namespace, v.name) {
			continue
		}
		if ok, err := g.reaches(ctx, node, vertex{claims, pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name}); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// reachesVolume follows a PersistentVolume to the claim that it is bound to.
func (g *graph) reachesVolume(ctx context.Context, node, name string) (bool, error) {
	obj, err := g.reader.Get(ctx, volumes, objects.Key{Name: name})
	if err != nil {
		return false, absent(err)
	}
	v, ok := obj.(*corev1.PersistentVolume)
	if !ok || v.Spec.ClaimRef == nil {
		return false, nil
	}
	return g.reaches(ctx, node, vertex{claims, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name})
}

func (g *graph) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	obj, err := g.reader.Get(ctx, pods, objects.Key{Namespace: namespace, Name: name})
	if err != nil {
		return nil, absent(err)
	}
	pod, _ := obj.(*corev1.Pod)
	return pod, nil
}

func (g *graph) cache(p path, pod string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.paths) >= maxPaths {
		clear(g.paths)
	}
	g.paths[p] = pod
}

// absent returns nil for a NotFound error, and any other error unchanged.
func absent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// needs reports whether pod is bound to p's node and refers to p's object. Mirror pods don't count: a node creates them
// itself, and could thereby gain access to any object.
func needs(pod *corev1.Pod, p path) bool {
	if pod.Spec.NodeName != p.node || pod.Namespace != p.to.namespace {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	switch p.to.resource {
	case secrets:
		return podref.Has(podref.Secrets(pod), p.to.name)
	case configMaps:
		return podref.Has(podref.ConfigMaps(pod), p.to.name)
	case claims:
		return podref.Has(podref.Claims(pod), p.to.name)
	case resourceClaims:
		return podref.Has(podref.ResourceClaims(pod), p.to.name)
	case serviceAccounts:
		return pod.Spec.ServiceAccountName == p.to.name
	}
	return false
}
