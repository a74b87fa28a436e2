package controller

import (
	"slices"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// DeletableResources returns the built-in resources whose objects are deleted with their owners and their namespace: all
// that can be deleted but Events, which outlive the objects that they are about.
func DeletableResources(g feature.Gates) []objects.Names {
	var out []objects.Names
	for _, r := range builtin.ResourcesWith(g) {
		if n := r.Names; n.Plural != "events" && slices.Contains(r.Verbs, "delete") {
			out = append(out, n)
		}
	}
	return out
}
