// Package components serves ComponentStatuses: each read calls the health checks of the components.
package components

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Check returns an error when a component is unhealthy.
type Check = func(context.Context) error

// Resource is the resource of ComponentStatuses.
var Resource = schema.GroupResource{Resource: "componentstatuses"}

// backend is the verbs.Backend of ComponentStatuses: the checks by the component's name.
type backend map[string]Check

// New returns the backend of ComponentStatuses. checks are those of "scheduler" and "controller-manager" where they run in
// this process; without one a component is unhealthy, as in Kubernetes, whose server cannot reach it either.
func New(etcd Check, checks map[string]Check) verbs.Backend {
	b := backend{"scheduler": notInProcess, "controller-manager": notInProcess, "etcd-0": etcd}
	maps.Copy(b, checks)
	return b
}

func notInProcess(context.Context) error { return errNotInProcess }

var errNotInProcess = errors.New("not running in the API server's process")

// Get returns the status of one component.
func (c backend) Get(ctx context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	if c[req.Name] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "componentstatus"}, req.Name)
	}
	return c.check(ctx, req.Name), nil
}

// List returns the statuses that the selectors match.
func (c backend) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	selectors, err := verbs.ParseSelectors(opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	out := verbs.Listing{Items: []*cache.Item{}}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if selectors.Match("", name, nil) {
			out.Items = append(out.Items, c.check(ctx, name))
		}
	}
	return out, nil
}

func (c backend) check(ctx context.Context, name string) *cache.Item {
	status := &corev1.ComponentStatus{Conditions: []corev1.ComponentCondition{{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}}}
	status.Name = name
	if err := c[name](ctx); err != nil {
		status.Conditions[0].Status, status.Conditions[0].Message = corev1.ConditionFalse, err.Error()
	}
	return cache.NewItem(objects.Key{Name: name}, 0, status)
}
