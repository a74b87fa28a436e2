package controllers

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

// TestWithoutController checks that the list follows from the rows and from All.
func TestWithoutController(t *testing.T) {
	got := WithoutController(builtin.Resources(), All)
	for resource, want := range map[schema.GroupResource]bool{
		{Group: "apps", Resource: "deployments"}:              false,
		{Resource: "configmaps"}:                              false,
		{Group: "networking.k8s.io", Resource: "ingresses"}:   true, // Kubernetes has no controller for them either
		{Group: "networking.k8s.io", Resource: "ipaddresses"}: false,
	} {
		if slices.Contains(got, resource) != want {
			t.Errorf("%s is without a controller: %v, want %v", resource, !want, want)
		}
	}
	if got := WithoutController(builtin.Resources(), nil); !slices.Contains(got, schema.GroupResource{Group: "apps", Resource: "deployments"}) {
		t.Errorf("without controllers %v have none", got)
	}
	if got := WithoutController(builtin.Resources(), nil, networking.IngressComponent); slices.Contains(got, schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}) {
		t.Errorf("with the ingress controller %v have none", got)
	}
}
