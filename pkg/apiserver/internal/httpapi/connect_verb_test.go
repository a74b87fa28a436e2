package httpapi

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// readOnly allows the verb get only.
type readOnly struct{}

func (readOnly) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	if a.Verb == "get" {
		return stage.Allow, "", nil
	}
	return stage.Deny, "", nil
}

func TestStreamsRequireCreatePermission(t *testing.T) {
	s := &Handler{config: Config{Stages: stage.Stages{Authorizers: []stage.Authorizer{readOnly{}}}}}
	r := httptest.NewRequest("GET", "/", nil)
	for subresource, allowed := range map[string]bool{"log": true, "exec": false, "attach": false, "portforward": false} {
		if err := s.authorizeStream(r, &stage.Attributes{Verb: "get", Subresource: subresource}); (err == nil) != allowed {
			t.Errorf("%s: got %v", subresource, err)
		}
	}
}
