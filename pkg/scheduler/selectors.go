package scheduler

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Selectors finds the pods that belong together with a pod: those that its Services and its controller select. It is safe for concurrent
// use.
type Selectors struct {
	services    *client.Cache[*corev1.Service]
	controllers *client.Cache[*corev1.ReplicationController]
	replicas    *client.Cache[*appsv1.ReplicaSet]
	stateful    *client.Cache[*appsv1.StatefulSet]
}

func newSelectors(c *client.Caches) *Selectors {
	return &Selectors{
		services:    client.CacheOf[*corev1.Service](c, corev1.SchemeGroupVersion.WithResource("services")),
		controllers: client.CacheOf[*corev1.ReplicationController](c, corev1.SchemeGroupVersion.WithResource("replicationcontrollers")),
		replicas:    c.ReplicaSets(),
		stateful:    client.CacheOf[*appsv1.StatefulSet](c, appsv1.SchemeGroupVersion.WithResource("statefulsets")),
	}
}

// selectingCaches returns the caches of a simulation, which hold the given Services and controllers.
func selectingCaches(given []objects.Object, clk clock.Clock) *client.Caches {
	caches := client.NewCaches(offline{}, clk)
	s := newSelectors(caches)
	for _, obj := range given {
		obj = obj.DeepCopyObject().(objects.Object)
		obj.SetResourceVersion("1") // the caches ignore an object that was never stored
		switch obj := obj.(type) {
		case *corev1.Service:
			s.services.Put(obj)
		case *corev1.ReplicationController:
			s.controllers.Put(obj)
		case *appsv1.ReplicaSet:
			s.replicas.Put(obj)
		case *appsv1.StatefulSet:
			s.stateful.Put(obj)
		}
	}
	return caches
}

// Of returns the selector of what belongs together with a pod. Without Services and a controller of a known kind it is empty.
func (s *Selectors) Of(pod *corev1.Pod) labels.Selector {
	merged := labels.Set{} // all of these select the pod, so they don't contradict each other
	for key, value := range pod.Labels {
		for _, service := range s.services.ByIndex(servicesByLabel, labelOf(pod.Namespace, key, value)) {
			if selector := labels.Set(service.Spec.Selector); selector.AsSelectorPreValidated().Matches(labels.Set(pod.Labels)) {
				maps.Copy(merged, selector)
			}
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return merged.AsSelector()
	}
	var own *metav1.LabelSelector
	key := objects.Key{Namespace: pod.Namespace, Name: owner.Name}
	switch schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind) {
	case corev1.SchemeGroupVersion.WithKind("ReplicationController"):
		if rc, ok := s.controllers.Get(key); ok {
			maps.Copy(merged, rc.Spec.Selector)
		}
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):
		if rs, ok := s.replicas.Get(key); ok {
			own = rs.Spec.Selector
		}
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		if set, ok := s.stateful.Get(key); ok {
			own = set.Spec.Selector
		}
	}
	return withSelector(merged.AsSelector(), own)
}

// withSelector adds the requirements of a controller's selector, which may be nil.
func withSelector(to labels.Selector, own *metav1.LabelSelector) labels.Selector {
	if own == nil {
		return to
	}
	selector, err := metav1.LabelSelectorAsSelector(own)
	if err != nil { // the API refuses such a controller
		return to
	}
	requirements, _ := selector.Requirements()
	return to.Add(requirements...)
}

// servicesByLabel lists a Service by one of the labels that its pods have, so that a pod's Services are found by the pod's labels.
var servicesByLabel = client.NewIndex(func(s *corev1.Service) []string {
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	key := slices.Min(slices.Collect(maps.Keys(s.Spec.Selector)))
	return []string{labelOf(s.Namespace, key, s.Spec.Selector[key])}
})

func labelOf(namespace, key, value string) string { return namespace + "/" + key + "=" + value }
