// Package clocks serves the cluster's clock: the resource clocks, which shows it, and clockadvances, whose creation moves it.
package clocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// Backend is the verbs.Backend of both resources.
type Backend struct{ clock clock.Clock }

var (
	_ verbs.Backend = Backend{}
	_ verbs.Creator = Backend{}
)

// New returns the backend of a cluster's clock.
func New(c clock.Clock) Backend { return Backend{c} }

// Get returns the clock.
func (b Backend) Get(_ context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	if req.Name != minikctl.ClusterClock {
		return nil, apierrors.NewNotFound(req.Resource.Names.GR(), req.Name)
	}
	return b.item(), nil
}

// List returns the clock if the selectors match it.
func (b Backend) List(_ context.Context, _ *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	selectors, err := verbs.ParseSelectors(opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	out := verbs.Listing{Items: []*cache.Item{}}
	if selectors.Match("", minikctl.ClusterClock, nil) {
		out.Items = append(out.Items, b.item())
	}
	return out, nil
}

func (b Backend) item() *cache.Item {
	out := &minikctl.Clock{Mode: minikctl.ClockMachine, Rate: 1, Time: metav1.NewMicroTime(b.clock.Now())}
	out.Name = minikctl.ClusterClock
	switch c := b.clock.(type) {
	case *clock.Fast:
		out.Mode, out.Rate = minikctl.ClockFast, c.Rate()
	case *clock.Manual:
		out.Mode, out.Rate = minikctl.ClockManual, 0
		out.Busy = c.Busy()
		if next := c.Next(); !next.IsZero() {
			out.Next = new(metav1.NewMicroTime(next))
		}
	}
	return cache.NewItem(objects.Key{Name: out.Name}, 0, out)
}

// advanceTime bounds the steps of one request in machine time, so that it ends before its deadline.
const advanceTime = 10 * time.Second

// Create moves the clock.
func (b Backend) Create(ctx context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.CreateOptions) (verbs.Result, error) {
	a, ok := obj.(*minikctl.ClockAdvance)
	if !ok {
		return verbs.Result{}, apierrors.NewMethodNotSupported(req.Resource.Names.GR(), "create")
	}
	m, ok := b.clock.(*clock.Manual)
	if !ok {
		return verbs.Result{}, apierrors.NewBadRequest("the cluster's clock runs by itself: only a manual clock can be advanced (minikctl up --clock=manual)")
	}
	now := m.Now()
	to := now.Add(a.By.Duration)
	switch {
	case a.To != nil && a.By.Duration != 0:
		return verbs.Result{}, apierrors.NewBadRequest("by and to exclude each other")
	case a.To != nil:
		to = a.To.Time
	}
	if to.Before(now.Truncate(time.Microsecond)) { // the precision of the API
		return verbs.Result{}, apierrors.NewBadRequest(fmt.Sprintf("the cluster's time is %s and never goes back", now.UTC().Format(time.RFC3339Nano)))
	}
	out := a.DeepCopyObject().(*minikctl.ClockAdvance)
	out.Name = cmp.Or(out.Name, minikctl.ClusterClock) // the clock that it moves, so that clients can print a name
	if out.Reached = metav1.NewMicroTime(now); len(opts.DryRun) == 0 {
		p, err := m.Advance(ctx, to, advanceTime)
		if late, ok := errors.AsType[*clock.NotSettledError](err); ok {
			return verbs.Result{}, apierrors.NewTimeoutError(late.Error(), 0)
		} else if err != nil {
			return verbs.Result{}, apierrors.NewInternalError(err)
		}
		out.Reached, out.Steps, out.Done = metav1.NewMicroTime(p.Time), p.Steps, !p.Time.Before(to)
	}
	return verbs.Result{Item: cache.NewItem(objects.Key{Name: out.Name}, 0, out), Created: true}, nil
}

// Rows returns the rows of both resources.
func Rows() []objects.Resource {
	names := func(kind, plural string) objects.Names {
		return objects.Names{Group: minikctl.GroupVersion.Group, Version: minikctl.GroupVersion.Version, Kind: kind, Plural: plural, Cluster: true}
	}
	return []objects.Resource{
		objects.Row(objects.Def[*minikctl.Clock]{
			Names:   names("Clock", "clocks"),
			New:     func() *minikctl.Clock { return new(minikctl.Clock) },
			NewList: func() runtime.Object { return new(minikctl.ClockList) },
			Verbs:   []string{"get", "list"},
			Columns: []objects.Column[*minikctl.Clock]{
				objects.NameColumn[*minikctl.Clock](),
				{Name: "Mode", Description: "Machine, Fast or Manual.", Cell: func(c *minikctl.Clock, _ time.Time) any { return c.Mode }},
				{Name: "Time", Description: "The cluster's time.", Cell: func(c *minikctl.Clock, _ time.Time) any { return stamp(&c.Time) }},
				{Name: "Rate", Type: "number", Description: "How many seconds pass in a second of the machine.",
					Cell: func(c *minikctl.Clock, _ time.Time) any { return c.Rate }},
				{Name: "Next", Description: "When something is due next.", Cell: func(c *minikctl.Clock, _ time.Time) any { return stamp(c.Next) }},
			},
		}),
		objects.Row(objects.Def[*minikctl.ClockAdvance]{
			Names:   names("ClockAdvance", "clockadvances"),
			New:     func() *minikctl.ClockAdvance { return new(minikctl.ClockAdvance) },
			NewList: func() runtime.Object { return new(minikctl.ClockAdvanceList) },
			Verbs:   []string{"create"},
		}),
	}
}

func stamp(t *metav1.MicroTime) string {
	if t == nil {
		return "<none>"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
