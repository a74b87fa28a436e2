package controllers

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// TestUnattended checks that the list follows from the rows and from All.
func TestUnattended(t *testing.T) {
	got := Unattended(builtin.Resources())
	for resource, want := range map[schema.GroupResource]bool{
		{Group: "apps", Resource: "deployments"}:              false,
		{Resource: "configmaps"}:                              false,
		{Group: "networking.k8s.io", Resource: "ingresses"}:   true, // Kubernetes has no controller for them either
		{Group: "networking.k8s.io", Resource: "ipaddresses"}: false,
	} {
		if slices.Contains(got, resource) != want {
			t.Errorf("%s is unattended: %v, want %v", resource, !want, want)
		}
	}
	all := All
	defer func() { All = all }()
	All = nil
	if got := Unattended(builtin.Resources()); !slices.Contains(got, schema.GroupResource{Group: "apps", Resource: "deployments"}) {
		t.Errorf("without controllers %v are unattended", got)
	}
}
