package discovery

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func written(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{
			Name: "e", Namespace: "default", UID: "u", Labels: map[string]string{"l": "v"},
			Annotations: map[string]string{"a": "v", corev1.LastAppliedConfigAnnotation: "x", corev1.EndpointsLastChangeTriggerTime: "x"},
		},
		Subsets: subsets,
	}
}

// stored returns what the API stores of the slices that a plan creates and updates, in the order of names.
func stored(existing []*discoveryv1.EndpointSlice, p mirrorPlan) []*discoveryv1.EndpointSlice {
	out := slices.DeleteFunc(slices.Clone(existing), func(s *discoveryv1.EndpointSlice) bool {
		same := func(o *discoveryv1.EndpointSlice) bool { return o.Name == s.Name }
		return slices.ContainsFunc(p.remove, same) || slices.ContainsFunc(p.update, same)
	})
	for i, s := range p.create {
		s.Name = fmt.Sprint(s.GenerateName, len(existing)+i)
		out = append(out, s)
	}
	return append(out, p.update...)
}

func counts(p mirrorPlan) [5]int {
	return [5]int{len(p.create), len(p.update), len(p.remove), p.invalid, p.skipped}
}

// TestPlanMirror changes Endpoints step by step. After each step a second plan must have nothing to do.
func TestPlanMirror(t *testing.T) {
	http, dns := []corev1.EndpointPort{port("http", 80)}, []corev1.EndpointPort{port("dns", 53)}
	many := make([]string, 1200)
	for i := range many {
		many[i] = fmt.Sprintf("10.0.%d.%d", i/200, i%200+1)
	}
	var existing []*discoveryv1.EndpointSlice
	for _, step := range []struct {
		name string
		ep   *corev1.Endpoints
		want [5]int // creates, updates, removals, invalid, skipped
	}{
		{"two families and two ports: three slices", written(
			corev1.EndpointSubset{Addresses: addresses("10.0.0.1", "fd00::1"), Ports: http},
			corev1.EndpointSubset{NotReadyAddresses: addresses("10.0.0.2"), Ports: dns}), [5]int{3, 0, 0, 0, 0}},
		{"an address becomes ready", written(
			corev1.EndpointSubset{Addresses: addresses("10.0.0.1", "fd00::1"), Ports: http},
			corev1.EndpointSubset{Addresses: addresses("10.0.0.2"), Ports: dns}), [5]int{0, 1, 0, 0, 0}},
		{"another port: the slice of the old one is used again", written(
			corev1.EndpointSubset{Addresses: addresses("10.0.0.1", "fd00::1"), Ports: http},
			corev1.EndpointSubset{Addresses: addresses("10.0.0.2"), Ports: []corev1.EndpointPort{port("dns", 54)}}), [5]int{0, 1, 0, 0, 0}},
		{"a subset goes, with an invalid address in the other", written(
			corev1.EndpointSubset{Addresses: addresses("10.0.0.1", "x", "fd00::1"), Ports: http}), [5]int{0, 0, 1, 1, 1}},
		{"more than the bound", written(corev1.EndpointSubset{Addresses: addresses(many...), Ports: http}), [5]int{0, 1, 1, 0, 200}},
		{"no subsets", written(), [5]int{0, 0, 1, 0, 0}},
	} {
		p := planMirror(step.ep, existing)
		if got := counts(p); got != step.want {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
		existing = stored(existing, p)
		for _, s := range existing {
			if s.Labels["l"] != "v" || s.Labels[discoveryv1.LabelServiceName] != "e" || s.Labels[discoveryv1.LabelManagedBy] != mirroringController ||
				len(s.Annotations) != 1 || s.Annotations["a"] != "v" || !metav1.IsControlledBy(s, step.ep) || len(s.Endpoints) > maxMirrored {
				t.Errorf("%s: slice %+v with %d endpoints", step.name, s.ObjectMeta, len(s.Endpoints))
			}
		}
		again := counts(planMirror(step.ep, existing))
		if again[0]+again[1]+again[2] > 0 {
			t.Errorf("%s: a second plan has %v", step.name, again)
		}
	}
}

func TestPlanMirrorOfReplacedEndpoints(t *testing.T) {
	ep := written(corev1.EndpointSubset{Addresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{port("p", 1)}})
	existing := stored(nil, planMirror(ep, nil))
	ep.UID = "another"
	if got, want := counts(planMirror(ep, existing)), [5]int{0, 1, 0, 0, 0}; got != want {
		t.Errorf("got %v, want %v: the slice must get its new owner", got, want)
	}
}
