package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// NoController warns about creates of resources that no component of this cluster acts on.
type NoController []schema.GroupResource

// Name implements stage.Mutator.
func (NoController) Name() string { return "NoController" }

// Mutate implements stage.Mutator. It changes nothing.
func (u NoController) Mutate(_ context.Context, a *stage.Admission) error {
	if a.Operation == stage.Create && a.Subresource == "" && a.Resource != nil && slices.Contains(u, a.Resource.Names.GR()) {
		a.Warn(fmt.Sprintf("nothing in this cluster acts on %s yet: the object is stored, and that is all", a.Resource.Names.GR()))
	}
	return nil
}
