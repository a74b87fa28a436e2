package apiserver

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Component tells how a part of the cluster is; nil when it is well.
type Component = func(context.Context) error

// componentStatuses is what components answers for.
var componentStatuses = schema.GroupResource{Resource: "componentstatuses"}

// components answers get and list of ComponentStatuses by asking the parts. Other verbs never come here: the row says so.
type components struct {
	verbs.API
	parts     map[string]Component
	authorize func(context.Context, *stage.Attributes) error
}

// newComponents adds the store to the parts that the server was told of. A part that it was not told of runs elsewhere, or
// not at all: Kubernetes' server can't tell either, and calls it unhealthy.
func (s *Server) newComponents(told map[string]Component) components {
	parts := map[string]Component{"scheduler": notHere, "controller-manager": notHere, "etcd-0": func(ctx context.Context) error {
		_, err := s.store.Head(ctx)
		return err
	}}
	maps.Copy(parts, told)
	return components{API: s.engine, parts: parts, authorize: s.check}
}

func notHere(context.Context) error { return errNotHere }

var errNotHere = errors.New("not running in the API server's process")

// Get asks one part.
func (c components) Get(ctx context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	if err := c.authorize(ctx, &req.Attributes); err != nil {
		return nil, err
	}
	if c.parts[req.Name] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "componentstatus"}, req.Name)
	}
	return c.ask(ctx, req.Name), nil
}

// List asks all parts that the selectors take.
func (c components) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	if err := c.authorize(ctx, &req.Attributes); err != nil {
		return verbs.Listing{}, err
	}
	byLabel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return verbs.Listing{}, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return verbs.Listing{}, apierrors.NewBadRequest(err.Error())
	}
	out := verbs.Listing{Items: []*cache.Item{}}
	for _, name := range slices.Sorted(maps.Keys(c.parts)) {
		if byLabel.Matches(labels.Set{}) && byField.Matches(fields.Set{"metadata.name": name, "metadata.namespace": ""}) {
			out.Items = append(out.Items, c.ask(ctx, name))
		}
	}
	return out, nil
}

func (c components) ask(ctx context.Context, name string) *cache.Item {
	status := &corev1.ComponentStatus{Conditions: []corev1.ComponentCondition{{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}}}
	status.Name = name
	if err := c.parts[name](ctx); err != nil {
		status.Conditions[0].Status, status.Conditions[0].Message = corev1.ConditionFalse, err.Error()
	}
	return cache.NewItem(objects.Key{Name: name}, 0, status)
}
