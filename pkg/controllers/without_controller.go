package controllers

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// WithoutController returns the resources whose controller, which the row names, is neither one of those that run nor one of the other
// components.
func WithoutController(rows []objects.Resource, running []controller.Controller, others ...string) []schema.GroupResource {
	var out []schema.GroupResource
	for _, r := range rows {
		runs := slices.Contains(others, r.Controller) ||
			slices.ContainsFunc(running, func(c controller.Controller) bool { return c.Component == r.Controller })
		if r.Controller != "" && !runs {
			out = append(out, r.Names.GR())
		}
	}
	return out
}
