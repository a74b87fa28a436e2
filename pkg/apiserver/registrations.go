package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// automanaged marks the APIServices that a server makes for itself: those of what is compiled in when it starts, those of
// custom resources always.
const (
	automanaged = "kube-aggregator.kubernetes.io/automanaged"
	onStart     = "onstart"
	always      = "true"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// registrations keep the APIServices of what this server answers for itself, from when somebody first asks for any.
type registrations struct {
	changed chan struct{} // has room for one: what is served has changed

	mu     sync.Mutex
	asked  bool
	fitted *served // for which they were last made to fit; nil: never
	at     uint64  // the state of the APIServices after that
}

func newRegistrations() registrations { return registrations{changed: make(chan struct{}, 1)} }

// furnishRegistrations has the APIServices fit, and what is known at once of the extension servers said.
func (s *Server) furnishRegistrations(ctx context.Context) error {
	if err := s.fitRegistrations(ctx, true); err != nil {
		return err
	}
	return s.extensions.Settle(ctx)
}

// registrationsChanged is called when somebody may have written an APIService.
func (s *Server) registrationsChanged(ctx context.Context) {
	if err := s.extensions.Changed(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "read the APIServices", "err", err)
	}
	s.servedChanged()
}

// servedChanged is called when something else is served than before.
func (s *Server) servedChanged() {
	select {
	case s.registrations.changed <- struct{}{}:
	default:
	}
}

// keepRegistrations has the APIServices fit what is served, once they were asked for, until ctx ends.
func (s *Server) keepRegistrations(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.registrations.changed:
		}
		if err := s.fitRegistrations(ctx, false); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "the APIServices are not those of what is served", "err", err)
		}
	}
}

// fitRegistrations makes the APIServices fit what is served. Unless asked is set, nothing is made before somebody has
// asked.
func (s *Server) fitRegistrations(ctx context.Context, asked bool) error {
	r := &s.registrations
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked = r.asked || asked; !r.asked {
		return nil
	}
	now := s.served()
	state, err := s.engine.Reader().State(ctx, apiServices.GroupResource())
	if err != nil || r.fitted == now && r.at == state.Changes {
		return err
	}
	have, err := s.storedRegistrations(ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group // writes that wait together are committed together
	want := now.registrations()
	for name, w := range want {
		if h := have[name]; w.Labels[automanaged] == always || r.fitted == nil {
			all.Go(func() error { return s.fitRegistration(ctx, h, w) })
		}
	}
	for name, h := range have {
		if want[name] == nil && (h.Labels[automanaged] == always || h.Labels[automanaged] == onStart && r.fitted == nil) {
			all.Go(func() error { return s.removeRegistration(ctx, h) })
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	r.fitted, r.at = now, state.Changes
	return nil
}

// storedRegistrations are all APIServices, by name.
func (s *Server) storedRegistrations(ctx context.Context) (map[string]*apiregistrationv1.APIService, error) {
	list, err := s.engine.Reader().List(ctx, apiServices.GroupResource(), "")
	if err != nil {
		return nil, err
	}
	out := map[string]*apiregistrationv1.APIService{}
	for _, obj := range list {
		if a, ok := obj.(*apiregistrationv1.APIService); ok {
			out[a.Name] = a
		}
	}
	return out, nil
}

// fitRegistration makes what is missing, and puts right what is marked as the server's own. It is no error when somebody
// else has written meanwhile: that is looked at again.
func (s *Server) fitRegistration(ctx context.Context, have, want *apiregistrationv1.APIService) error {
	c := s.Client(self, systemAgent)
	var err error
	switch {
	case have == nil:
		_, err = c.Create(ctx, client.Target{Resource: apiServices}, want, metav1.CreateOptions{})
	case have.Labels[automanaged] == "" || equality.Semantic.DeepEqual(have.Spec, want.Spec):
		return nil
	default:
		next := have.DeepCopy()
		next.Spec = want.Spec
		_, err = c.Update(ctx, client.In(apiServices, objects.Key{Name: have.Name}), next, metav1.UpdateOptions{})
	}
	return unlessMeanwhile(err)
}

func (s *Server) removeRegistration(ctx context.Context, have *apiregistrationv1.APIService) error {
	of := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))}
	_, err := s.Client(self, systemAgent).Delete(ctx, client.In(apiServices, objects.Key{Name: have.Name}), of)
	return unlessMeanwhile(err)
}

// unlessMeanwhile drops errors that say that somebody else was first.
func unlessMeanwhile(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// registrations are the APIServices of what is served, by name.
func (n *served) registrations() map[string]*apiregistrationv1.APIService {
	out := map[string]*apiregistrationv1.APIService{}
	for gv := range n.resources.versions {
		if gv.Group == discovery.Registration {
			continue
		}
		a := registration(gv)
		out[a.Name] = a
	}
	return out
}

func registration(gv schema.GroupVersion) *apiregistrationv1.APIService {
	p, builtIn := discovery.PriorityOf(gv)
	mark := always
	if builtIn {
		mark = onStart
	}
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{automanaged: mark}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version},
	}
}
