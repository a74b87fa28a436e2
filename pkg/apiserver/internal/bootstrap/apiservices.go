package bootstrap

import (
	"context"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

// automanaged is the label of the APIServices that the server manages itself: those of builtin versions from its start,
// those of custom resources always.
const (
	automanaged = "kube-aggregator.kubernetes.io/automanaged"
	onStart     = "onstart"
	always      = "true"
)

var apiServicesResource = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// apiServices is what the loop of the APIServices last worked on. Only that loop uses it.
type apiServices struct {
	versions []schema.GroupVersion // nil: the loop has not run yet
	changes  uint64                // the number of changes of APIServices after its last run
}

// versions returns the versions that have an APIService, sorted. The group of metrics has none, so that a metrics server can be
// installed, which then serves the group: its installer creates the APIService.
func (b *Bootstrap) versions() []schema.GroupVersion {
	all := slices.DeleteFunc(b.config.Versions(), func(gv schema.GroupVersion) bool {
		return gv.Group == discovery.Registration || gv.Group == metrics.Group.Name
	})
	slices.SortFunc(all, func(x, y schema.GroupVersion) int { return strings.Compare(x.String(), y.String()) })
	return all
}

func (b *Bootstrap) apiServiceObjects(context.Context) ([]virtual, error) {
	var out []virtual
	for _, gv := range b.versions() {
		out = append(out, virtual{object: apiServiceOf(gv)})
	}
	return out, nil
}

func apiServiceOf(gv schema.GroupVersion) *apiregistrationv1.APIService {
	p, builtin := discovery.PriorityOf(gv)
	label := always
	if builtin {
		label = onStart
	}
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{automanaged: label}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version},
	}
}

// reconcileAPIServices makes the APIServices fit what the server serves, once a client has read any. Until then they are
// virtual.
func (b *Bootstrap) reconcileAPIServices(ctx context.Context) error {
	gr := apiServicesResource.GroupResource()
	if b.rows[gr] == nil || !b.read(ctx, gr) {
		return nil
	}
	last, now := &b.apiServices, b.versions()
	counters, err := b.access.Reader.Counters(ctx, gr)
	if err != nil || last.versions != nil && slices.Equal(last.versions, now) && last.changes == counters.Changes {
		return err
	}
	have := map[string]*apiregistrationv1.APIService{}
	list, err := b.access.Reader.List(ctx, gr, "")
	if err != nil {
		return err
	}
	for _, obj := range list {
		if s, ok := obj.(*apiregistrationv1.APIService); ok {
			have[s.Name] = s
		}
	}
	if err := b.fitAPIServices(ctx, have, now); err != nil {
		return err
	}
	last.versions, last.changes = now, counters.Changes
	return nil
}

// fitAPIServices creates, corrects and deletes APIServices. Those of builtin versions only in the first run.
func (b *Bootstrap) fitAPIServices(ctx context.Context, have map[string]*apiregistrationv1.APIService, versions []schema.GroupVersion) error {
	first := b.apiServices.versions == nil
	var all errgroup.Group // writes that wait together are committed together
	all.SetLimit(clock.AtOnce(ctx, -1))
	wanted := map[string]bool{}
	for _, gv := range versions {
		want := apiServiceOf(gv)
		wanted[want.Name] = true
		if first || want.Labels[automanaged] == always {
			all.Go(func() error { return b.fitAPIService(ctx, have[want.Name], want) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		s := have[name]
		if mark := s.Labels[automanaged]; !wanted[name] && (mark == always || mark == onStart && first) {
			all.Go(func() error {
				of := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))}
				_, err := b.access.Client(Agent).Delete(ctx, client.In(apiServicesResource, objects.Key{Name: name}), of)
				return ignoreConflict(err)
			})
		}
	}
	return all.Wait()
}

// fitAPIService creates a missing APIService, and corrects one that the server manages.
func (b *Bootstrap) fitAPIService(ctx context.Context, have, want *apiregistrationv1.APIService) error {
	switch {
	case have == nil:
		return b.ensure(ctx, apiServicesResource, want)
	case have.Labels[automanaged] == "" || equality.Semantic.DeepEqual(have.Spec, want.Spec):
		return nil
	}
	next := have.DeepCopy()
	next.Spec = want.Spec
	_, err := b.access.Client(Agent).Update(ctx, client.In(apiServicesResource, objects.Key{Name: have.Name}), next, metav1.UpdateOptions{})
	return ignoreConflict(err)
}
