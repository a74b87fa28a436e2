// Package discovery has the controllers that publish where the pods of a Service listen: EndpointSlices, Endpoints, and
// EndpointSlices that mirror the Endpoints of Services without a selector.
package discovery

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	endpointsutil "k8s.io/endpointslice/util"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// hasEndpoints reports whether the pods that a Service selects are its endpoints. A Service without a selector has the
// endpoints that a client writes, and one of type ExternalName has none.
func hasEndpoints(s *corev1.Service) bool {
	return s.Spec.Selector != nil && s.Spec.Type != corev1.ServiceTypeExternalName
}

// selectedPods returns the pods that a Service selects.
func selectedPods(pods *client.Cache[*corev1.Pod], s *corev1.Service) []*corev1.Pod {
	return pods.List(s.Namespace, labels.Set(s.Spec.Selector).AsSelectorPreValidated())
}

// servicesOf maps a change of a pod that may change endpoints to the Services that select the pod, before or after it.
func servicesOf(services *client.Cache[*corev1.Service]) func(client.Change[*corev1.Pod]) []objects.Key {
	return func(ch client.Change[*corev1.Pod]) []objects.Key {
		var before, after any // nil interfaces, as the library expects them
		if !ch.Added() {
			before = ch.Old
		}
		if !ch.Deleted() {
			after = ch.New
		}
		changed := endpointsutil.GetPodUpdateProjectionKey(before, after)
		if changed == nil {
			return nil
		}
		var keys []objects.Key
		for _, s := range services.List(changed.Namespace, nil) {
			if s.Spec.Selector == nil {
				continue
			}
			selector := labels.Set(s.Spec.Selector).AsSelectorPreValidated()
			now, then := selector.Matches(changed.Labels), changed.OldLabels != nil && selector.Matches(changed.OldLabels)
			if now && (changed.OldLabels == nil || changed.PodChanged || !then) || then && (changed.PodChanged || !now) {
				keys = append(keys, objects.Key{Namespace: s.Namespace, Name: s.Name})
			}
		}
		return keys
	}
}

// inOrder returns pods by name, so that the same pods give the same endpoints in the same order.
func inOrder(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
}
