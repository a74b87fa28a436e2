package verbs

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
)

// InTurns returns api with its writes in turns, if the parts of the cluster on the engine's clock take turns. Those of a part that has a turn
// belong to it, and return when watches and caches have delivered them, so that the part reads the same in each run.
func (e *Engine) InTurns(api API) API {
	if !clock.InTurns(e.config.Clock) {
		return api
	}
	return inTurns{api, e}
}

type inTurns struct {
	API
	engine *Engine
}

// begin takes a turn for a request that may change stored objects.
func (t inTurns) begin(ctx context.Context, req *Request) (context.Context, func(), error) {
	if t.engine.backend(req) != nil || t.engine.config.Reviews[req.Resource.Names.GR()] != nil || req.Subresource == "token" {
		return ctx, func() {}, nil
	}
	key := strings.Join([]string{req.Verb, req.Resource.Names.GR().String(), req.Namespace, req.Name}, " ")
	ctx, end := clock.TakeTurn(ctx, t.engine.config.Clock, clock.Rank{Class: clock.Outside, Part: "request of " + req.User.GetName(), Key: key})
	return ctx, func() {
		clock.Propagate(ctx)
		end()
	}, ctx.Err()
}

func (t inTurns) Create(ctx context.Context, req *Request, body Body, opts *metav1.CreateOptions) (Result, error) {
	ctx, end, err := t.begin(ctx, req)
	defer end()
	if err != nil {
		return Result{}, err
	}
	return t.API.Create(ctx, req, body, opts)
}

func (t inTurns) Update(ctx context.Context, req *Request, body Body, opts *metav1.UpdateOptions) (Result, error) {
	ctx, end, err := t.begin(ctx, req)
	defer end()
	if err != nil {
		return Result{}, err
	}
	return t.API.Update(ctx, req, body, opts)
}

func (t inTurns) Patch(ctx context.Context, req *Request, p Patch, opts *metav1.PatchOptions) (Result, error) {
	ctx, end, err := t.begin(ctx, req)
	defer end()
	if err != nil {
		return Result{}, err
	}
	return t.API.Patch(ctx, req, p, opts)
}

func (t inTurns) Delete(ctx context.Context, req *Request, opts *metav1.DeleteOptions) (Result, error) {
	ctx, end, err := t.begin(ctx, req)
	defer end()
	if err != nil {
		return Result{}, err
	}
	return t.API.Delete(ctx, req, opts)
}

func (t inTurns) DeleteCollection(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error) {
	ctx, end, err := t.begin(ctx, req)
	defer end()
	if err != nil {
		return Listing{}, err
	}
	return t.API.DeleteCollection(ctx, req, opts, list)
}
