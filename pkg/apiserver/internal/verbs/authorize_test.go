package verbs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// fixedAuthorizer is an authorizer with a fixed decision.
type fixedAuthorizer struct {
	decision stage.Decision
	err      error
}

func (d fixedAuthorizer) Authorize(context.Context, *stage.Attributes) (stage.Decision, string, error) {
	return d.decision, "", d.err
}

func TestAuthorizerChain(t *testing.T) {
	broken := fixedAuthorizer{stage.NoOpinion, errors.New("out of order")}
	for _, c := range []struct {
		name  string
		list  []stage.Authorizer
		code  int32
		words string
	}{
		{"an error is no opinion", []stage.Authorizer{broken, fixedAuthorizer{decision: stage.Allow}}, 404, `configmaps "x" not found`},
		{"no authorizer allows", []stage.Authorizer{broken}, 403,
			`configmaps "x" is forbidden: User "&lt;b&gt;" cannot get resource "configmaps" in API group "" in the namespace "default": out of order`},
		{"one denies", []stage.Authorizer{fixedAuthorizer{decision: stage.Deny}, fixedAuthorizer{decision: stage.Allow}}, 403, "forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := engine(t, verbs.Config{Stages: func(stage.Reader) stage.Stages { return stage.Stages{Authorizers: c.list} }})
			cl := direct.New(e, e.Lookup, &user.DefaultInfo{Name: "<b>"}, "test")
			_, err := cl.Get(t.Context(), in(configMaps, "x"), metav1.GetOptions{})
			wantError(t, err, c.code, c.words)
		})
	}
}

// engine runs an engine of cfg over a new store until the test ends.
func engine(t *testing.T, cfg verbs.Config) *verbs.Engine {
	t.Helper()
	cfg.Store, cfg.Resources, cfg.Source = memory.New(), builtin.Resources(), clock.NewSource(1)
	cfg.Clock = clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	e, err := verbs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return e
}
