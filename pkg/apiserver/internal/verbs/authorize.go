package verbs

import (
	"context"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// authorize asks the authorizers; an engine without any allows everything.
func (e *Engine) authorize(ctx context.Context, a *stage.Attributes) error {
	if len(e.stages.Authorizers) == 0 {
		return nil
	}
	return authz.Check(ctx, e.stages.Authorizers, a)
}
