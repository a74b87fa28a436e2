// Package aggregate is the aggregation layer: an APIService that names a Service is a group-version that an extension server
// serves. Authenticated and authorized requests for it are proxied to the extension server, with
// the front proxy's certificate and headers that name the user. The extension's discovery and OpenAPI documents are merged into
// the server's own. The condition Available reports whether the extension server is reachable.
//
// The table of extensions is read from the stored APIServices when they have changed. Nothing runs while none of them
// names a Service.
package aggregate

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// Config holds the dependencies of Extensions.
type Config struct {
	Reader   stage.Reader
	Stored   func(context.Context, schema.GroupResource) (bool, error) // reports whether any object of a resource is stored
	Client   func() client.Client                                      // the server's own, which writes conditions and watches Services and EndpointSlices
	Identity func() (*tls.Certificate, error)                          // the front proxy's certificate, read at each handshake
	Self     func() string                                             // HOST:PORT of this server, the endpoint of the Service kubernetes
	Clock    clock.Clock
}

// Extensions are the extension servers of a cluster. They are safe for concurrent use.
type Extensions struct {
	config Config
	now    atomic.Pointer[table]
	wake   chan struct{} // has room for one

	mu sync.Mutex // held while a table is read
}

// table holds the extensions. It is immutable.
type table struct {
	changes uint64 // number of changes of APIServices when they were read
	byGV    map[schema.GroupVersion]*extension
}

// extension is an APIService that names a Service.
type extension struct {
	service *apiregistrationv1.APIService
	link    *link
}

// New returns the extensions of the APIServices in c.Reader.
func New(c Config) *Extensions {
	return &Extensions{config: c, wake: make(chan struct{}, 1)}
}

var apiServices = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// table returns the current extensions.
func (x *Extensions) table(ctx context.Context) (*table, error) {
	if stored, err := x.config.Stored(ctx, apiServices); err != nil || !stored {
		return &table{}, err // only the server's own APIServices, which name no Service
	}
	counters, err := x.config.Reader.Counters(ctx, apiServices)
	if err != nil {
		return nil, err
	}
	if t := x.now.Load(); t != nil && t.changes == counters.Changes {
		return t, nil
	}
	return x.read(ctx)
}

// read reads the table again. Unchanged extensions keep their connections and fetched documents.
func (x *Extensions) read(ctx context.Context) (*table, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	counters, err := x.config.Reader.Counters(ctx, apiServices) // read before the list, so that a change made meanwhile is read again
	if err != nil {
		return nil, err
	}
	all, err := x.config.Reader.List(ctx, apiServices, "")
	if err != nil && !apierrors.IsNotFound(err) { // NotFound: a server without this resource
		return nil, err
	}
	old := x.now.Load()
	t := &table{changes: counters.Changes, byGV: map[schema.GroupVersion]*extension{}}
	for _, obj := range all {
		s, ok := obj.(*apiregistrationv1.APIService)
		if !ok || s.Spec.Service == nil || s.Spec.Group == discovery.Registration {
			continue
		}
		gv := schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
		t.byGV[gv] = &extension{s, x.linkTo(old, gv, s)}
	}
	x.now.Store(t)
	old.close(t)
	if len(t.byGV) > 0 {
		x.notify()
	}
	return t, nil
}

// linkTo returns the old link if s has the same target, else a new one.
func (x *Extensions) linkTo(old *table, gv schema.GroupVersion, s *apiregistrationv1.APIService) *link {
	if old != nil {
		if e := old.byGV[gv]; e != nil && e.service.UID == s.UID && equality.Semantic.DeepEqual(e.service.Spec, s.Spec) {
			return e.link
		}
	}
	return x.newLink(s)
}

// close closes the links that are not in the next table.
func (t *table) close(next *table) {
	if t == nil {
		return
	}
	for gv, e := range t.byGV {
		if n := next.byGV[gv]; n == nil || n.link != e.link {
			e.link.transport.CloseIdleConnections()
		}
	}
}

// notify makes Run check for extensions.
func (x *Extensions) notify() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Changed must be called after a write of an APIService. It sets the condition of new extensions as far as it is known
// without a request to them.
func (x *Extensions) Changed(ctx context.Context) error {
	t, err := x.table(ctx)
	if err != nil {
		return err
	}
	for _, e := range t.byGV {
		if condition(e.service) != nil {
			continue
		}
		if c := e.checkService(ctx); c != nil {
			if err := x.store(ctx, e.service, c); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// Find returns the handler of a group-version that an extension serves, or nil.
func (x *Extensions) Find(ctx context.Context, gv schema.GroupVersion) (Handler, error) {
	t, err := x.table(ctx)
	if err != nil || len(t.byGV) == 0 {
		return nil, err
	}
	e := t.byGV[gv]
	if e == nil {
		return nil, nil
	}
	return e.serve, nil
}

// Discovery returns the discovery documents of the extensions.
func (x *Extensions) Discovery(ctx context.Context) ([]discovery.Remote, error) {
	t, err := x.table(ctx)
	if err != nil {
		return nil, err
	}
	if len(t.byGV) == 0 {
		return nil, nil
	}
	t.await(ctx, clock.Machine(x.config.Clock))
	out := make([]discovery.Remote, 0, len(t.byGV))
	for gv, e := range t.byGV {
		out = append(out, discovery.Remote{
			GroupVersion: gv, Discovery: e.link.discovered(gv.Version),
			Priority: discovery.Priority{Group: e.service.Spec.GroupPriorityMinimum, Version: e.service.Spec.VersionPriority},
		})
	}
	slices.SortFunc(out, func(a, b discovery.Remote) int { return compare(a.GroupVersion, b.GroupVersion) })
	return out, nil
}

// Handler proxies a request to an extension server.
type Handler func(w http.ResponseWriter, r *http.Request, asker Requester)
