// Package schedulerconfigs serves SchedulerConfigs: the configurations that schedulers report to run. Only the latest report of each
// scheduler is kept, in memory. Schedulers repeat their reports, so that a server that starts again gets them.
package schedulerconfigs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// maxSchedulers bounds the number of schedulers whose reports are kept.
const maxSchedulers = 64

// Backend is the verbs.Backend of SchedulerConfigs.
type Backend struct {
	mu      sync.Mutex
	reports map[string]*minikctl.SchedulerConfig // by name; their objects are not changed
}

var (
	_ verbs.Backend = (*Backend)(nil)
	_ verbs.Creator = (*Backend)(nil)
)

// New returns a backend without reports.
func New() *Backend { return &Backend{reports: map[string]*minikctl.SchedulerConfig{}} }

// Get returns the report of one scheduler.
func (b *Backend) Get(_ context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.reports[req.Name]
	if !ok {
		return nil, apierrors.NewNotFound(req.Resource.Names.GR(), req.Name)
	}
	return item(c), nil
}

// List returns the reports that the selectors match, in the order of their names.
func (b *Backend) List(_ context.Context, _ *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	selectors, err := verbs.ParseSelectors(opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := verbs.Listing{Items: []*cache.Item{}}
	for _, name := range slices.Sorted(maps.Keys(b.reports)) {
		if c := b.reports[name]; selectors.Match("", name, c.Labels) {
			out.Items = append(out.Items, item(c))
		}
	}
	return out, nil
}

func item(c *minikctl.SchedulerConfig) *cache.Item {
	return cache.NewItem(objects.Key{Name: c.Name}, 0, c)
}

// Create keeps a report. It replaces an earlier one of the scheduler.
func (b *Backend) Create(_ context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.CreateOptions) (verbs.Result, error) {
	given, ok := obj.(*minikctl.SchedulerConfig)
	if !ok {
		return verbs.Result{}, apierrors.NewBadRequest(fmt.Sprintf("%T is no SchedulerConfig", obj))
	}
	if given.Name == "" {
		return verbs.Result{}, apierrors.NewBadRequest("name is required")
	}
	c := given.DeepCopyObject().(*minikctl.SchedulerConfig)
	c.CreationTimestamp = metav1.NewTime(c.Applied.Time).Rfc3339Copy()
	c.SetGroupVersionKind(req.Resource.Names.GVK())
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.reports[c.Name]; !ok && len(b.reports) == maxSchedulers {
		return verbs.Result{}, apierrors.NewTooManyRequests(fmt.Sprintf("%d schedulers have reported their configurations", maxSchedulers), 0)
	}
	if len(opts.DryRun) == 0 {
		b.reports[c.Name] = c
	}
	return verbs.Result{Item: item(c), Created: true}, nil
}

// Row returns the row of SchedulerConfigs.
func Row() objects.Resource {
	return objects.Row(objects.Def[*minikctl.SchedulerConfig]{
		Names: objects.Names{Group: minikctl.GroupVersion.Group, Version: minikctl.GroupVersion.Version, Kind: "SchedulerConfig", Plural: "schedulerconfigs", Cluster: true},
		New:   func() *minikctl.SchedulerConfig { return new(minikctl.SchedulerConfig) }, NewList: func() runtime.Object { return new(minikctl.SchedulerConfigList) },
		Verbs: []string{"create", "get", "list"},
		Columns: []objects.Column[*minikctl.SchedulerConfig]{
			objects.NameColumn[*minikctl.SchedulerConfig](),
			{Name: "Generation", Type: "integer", Description: "How many configurations the scheduler has run since its start.",
				Cell: func(c *minikctl.SchedulerConfig, _ time.Time) any { return c.Generation }},
			{Name: "Profiles", Description: "The profiles' schedulerNames.",
				Cell: func(c *minikctl.SchedulerConfig, _ time.Time) any { return strings.Join(c.Profiles, ",") }},
			{Name: "File", Description: "The file that the configuration was read from.",
				Cell: func(c *minikctl.SchedulerConfig, _ time.Time) any {
					if c.File == "" {
						return "<none>"
					}
					return c.File
				}},
			{Name: "Age", Description: "How long ago it came into force.",
				Cell: func(c *minikctl.SchedulerConfig, now time.Time) any { return objects.Age(c.CreationTimestamp, now) }},
			{Name: "Refused", Description: "Why the file's present content is not in force.",
				Cell: func(c *minikctl.SchedulerConfig, _ time.Time) any { return c.Refused }},
		},
	})
}
