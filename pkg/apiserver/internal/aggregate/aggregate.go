// Package aggregate owns what other servers answer for: an APIService that names a Service says that an extension server
// behind it serves a version of a group. Requests for it are passed on, once they are authenticated and authorized, under
// the front proxy's certificate with headers that say who asks; the extension's discovery and OpenAPI are fetched and become
// part of the server's own; and whether it can be reached is told in the condition Available.
//
// What is passed on where is read from the stored APIServices when they have changed. Nothing runs while there are none
// that name a Service.
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

// Config is what Extensions need.
type Config struct {
	Reader   stage.Reader
	Client   func() client.Client             // the server's own, which stores conditions and watches what they depend on
	Identity func() (*tls.Certificate, error) // the front proxy's, asked for at each handshake
	Self     func() string                    // HOST:PORT of this server, which is what is behind the Service kubernetes
	Clock    clock.Clock
}

// Extensions are the extension servers of a cluster. They are safe for concurrent use.
type Extensions struct {
	config Config
	now    atomic.Pointer[table]
	wake   chan struct{} // has room for one

	mu sync.Mutex // while a table is made
}

// table is which extensions there are. It never changes.
type table struct {
	changes uint64 // of the APIServices when they were read
	byGV    map[schema.GroupVersion]*extension
}

// extension is a version of a group that another server answers for, as its APIService has it.
type extension struct {
	service *apiregistrationv1.APIService
	link    *link
}

// New returns the extensions of the cluster whose APIServices are in c.Reader.
func New(c Config) *Extensions {
	return &Extensions{config: c, wake: make(chan struct{}, 1)}
}

var apiServices = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// table returns the extensions that there are now.
func (x *Extensions) table(ctx context.Context) (*table, error) {
	state, err := x.config.Reader.State(ctx, apiServices)
	if err != nil {
		return nil, err
	}
	if t := x.now.Load(); t != nil && t.changes == state.Changes {
		return t, nil
	}
	return x.read(ctx)
}

// read makes the table anew. Extensions that are as before keep their connections and what is known of them.
func (x *Extensions) read(ctx context.Context) (*table, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	state, err := x.config.Reader.State(ctx, apiServices) // before the list: what changes meanwhile is read again
	if err != nil {
		return nil, err
	}
	all, err := x.config.Reader.List(ctx, apiServices, "")
	if err != nil && !apierrors.IsNotFound(err) { // a server of fewer resources
		return nil, err
	}
	old := x.now.Load()
	t := &table{changes: state.Changes, byGV: map[schema.GroupVersion]*extension{}}
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
		x.poke()
	}
	return t, nil
}

// linkTo returns the link of before when it leads to where s does, else a new one.
func (x *Extensions) linkTo(old *table, gv schema.GroupVersion, s *apiregistrationv1.APIService) *link {
	if old != nil {
		if e := old.byGV[gv]; e != nil && e.service.UID == s.UID && equality.Semantic.DeepEqual(e.service.Spec, s.Spec) {
			return e.link
		}
	}
	return x.newLink(s)
}

// close ends the connections that the next table does not have.
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

// poke lets Run look whether there is something to do.
func (x *Extensions) poke() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Changed is told when somebody has written an APIService.
func (x *Extensions) Changed(ctx context.Context) error {
	_, err := x.table(ctx)
	return err
}

// Find returns what answers requests for a path of the API that an extension serves; nil when none does.
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

// Discovery returns what the extensions say they serve.
func (x *Extensions) Discovery(ctx context.Context) ([]discovery.Remote, error) {
	t, err := x.table(ctx)
	if err != nil {
		return nil, err
	}
	if len(t.byGV) == 0 {
		return nil, nil
	}
	t.await(ctx, x.config.Clock)
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

// Handler passes a request on.
type Handler func(w http.ResponseWriter, r *http.Request, who Asker)
