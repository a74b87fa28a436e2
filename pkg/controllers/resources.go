package controllers

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// collected returns the resources whose objects come and go with their owners and namespaces: all but Events, which are
// about objects and outlive them.
func collected() []objects.Names {
	var out []objects.Names
	for _, r := range builtin.Resources {
		if n := r.Names; n.Plural != "events" && slices.Contains(r.Verbs, "delete") {
			out = append(out, n)
		}
	}
	return out
}

// contents returns the resources that a namespace is emptied of, pods first: what they use shall be there while they end.
func contents() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, r := range builtin.Resources {
		if !r.Names.Cluster && slices.Contains(r.Verbs, "deletecollection") {
			out = append(out, r.Names.GVR())
		}
	}
	return out
}
