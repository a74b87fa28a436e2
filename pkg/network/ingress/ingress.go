// Package ingress owns the cluster's own ingress controller: it serves the Ingresses of its class on an address of this machine, and passes
// their requests on to the endpoints of Services. It listens only while there is such an Ingress.
package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Config configures an Ingress.
type Config struct {
	Client client.Client  // reads Secrets and writes statuses of Ingresses
	Caches *client.Caches // the caller runs them
	Clock  clock.Clock    // the cluster's
	Class  string         // the controller's name in IngressClasses
	At     netip.Addr     // an address that nothing else listens on
	// HTTP and HTTPS are the ports. A process that may not listen on a port below 1024 has Alternate ones in its place, and pods
	// find the others (addr.Unprivileged).
	HTTP, HTTPS, AlternateHTTP, AlternateHTTPS uint16
}

// Ingress serves the Ingresses of a class.
type Ingress struct {
	cfg       Config
	machine   clock.Clock
	log       *slog.Logger
	ingresses *client.Cache[*networkingv1.Ingress]
	classes   *client.Cache[*networkingv1.IngressClass]
	services  *client.Cache[*corev1.Service]
	slices    *client.Cache[*discoveryv1.EndpointSlice]

	table     atomic.Pointer[table]
	turn      atomic.Uint64 // the number of requests
	fallback  func() (*tls.Certificate, error)
	closeIdle func()

	mu      sync.Mutex
	certs   map[objects.Key]kept // by Secret
	servers []*http.Server       // none while no Ingress is served
	serving sync.WaitGroup
}

var (
	ingressResource = networkingv1.SchemeGroupVersion.WithResource("ingresses")
	classResource   = networkingv1.SchemeGroupVersion.WithResource("ingressclasses")
)

// New returns an Ingress that serves once it runs.
func New(cfg Config) *Ingress {
	i := &Ingress{
		cfg: cfg, machine: clock.Machine(cfg.Clock), log: slog.Default(), certs: map[objects.Key]kept{},
		ingresses: client.CacheOf[*networkingv1.Ingress](cfg.Caches, ingressResource),
		classes:   client.CacheOf[*networkingv1.IngressClass](cfg.Caches, classResource),
		services:  client.CacheOf[*corev1.Service](cfg.Caches, client.Services),
		slices:    client.CacheOf[*discoveryv1.EndpointSlice](cfg.Caches, client.EndpointSlices),
	}
	i.fallback = sync.OnceValues(func() (*tls.Certificate, error) { return selfSigned(i.machine.Now()) })
	i.table.Store(newTable(nil))
	return i
}

// Run serves until ctx ends, and then closes all connections.
func (i *Ingress) Run(ctx context.Context) error {
	defer i.close()
	if err := i.cfg.Caches.WaitSynced(ctx); err != nil {
		return nil // ctx ended first
	}
	return reconcile.RunAll(ctx, i.cfg.Clock, "start of the ingress", reconcile.Loop{
		Name: "ingress",
		Sources: []reconcile.Source{
			reconcile.Watch(i.ingresses),
			reconcile.Map(i.classes, func(client.Change[*networkingv1.IngressClass]) []objects.Key {
				var keys []objects.Key
				for _, in := range i.ingresses.List("", nil) {
					keys = append(keys, objects.Key{Namespace: in.Namespace, Name: in.Name})
				}
				return keys
			}),
		},
		Reconcile: i.reconcile,
		Workers:   1,
	})
}

// retryListen is the pause before the next attempt to listen on a port that another program has.
const retryListen = 10 * time.Second

func (i *Ingress) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	var own []*networkingv1.Ingress
	for _, in := range i.ingresses.List("", nil) {
		if i.owns(in) && in.DeletionTimestamp == nil {
			own = append(own, in)
		}
	}
	i.table.Store(newTable(own))
	if len(own) == 0 {
		i.close()
	} else if err := i.listen(); err != nil {
		i.log.WarnContext(ctx, "ingress does not listen", "err", err)
		return retryListen, nil
	}
	if in, ok := i.ingresses.Get(key); ok && in.DeletionTimestamp == nil {
		return 0, i.writeStatus(ctx, in)
	}
	return 0, nil
}

// classAnnotation is the old way to name the class of an Ingress.
const classAnnotation = "kubernetes.io/ingress.class"

// owns reports whether the class of an Ingress is this controller's.
func (i *Ingress) owns(in *networkingv1.Ingress) bool {
	name := in.Annotations[classAnnotation]
	if in.Spec.IngressClassName != nil {
		name = *in.Spec.IngressClassName
	}
	class, ok := i.classes.Get(objects.Key{Name: name})
	return ok && class.Spec.Controller == i.cfg.Class
}

// writeStatus shows the address in the status of an own Ingress, and takes it from one that has another class now.
func (i *Ingress) writeStatus(ctx context.Context, in *networkingv1.Ingress) error {
	have, at := in.Status.LoadBalancer.Ingress, i.cfg.At.String()
	shown := slices.ContainsFunc(have, func(l networkingv1.IngressLoadBalancerIngress) bool { return l.IP == at })
	if shown == i.owns(in) {
		return nil
	}
	in = in.DeepCopy()
	in.Status.LoadBalancer.Ingress = nil
	if !shown {
		in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: at}}
	}
	t := client.In(ingressResource, objects.Key{Namespace: in.Namespace, Name: in.Name})
	t.Subresource = "status"
	_, err := i.cfg.Client.Update(ctx, t, in, metav1.UpdateOptions{})
	return err
}

// listen opens the ports unless they are open.
func (i *Ingress) listen() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.servers) > 0 {
		return nil
	}
	handler := i.handler()
	plain, err := i.open(i.cfg.HTTP, i.cfg.AlternateHTTP)
	if err != nil {
		return err
	}
	secure, err := i.open(i.cfg.HTTPS, i.cfg.AlternateHTTPS)
	if err != nil {
		for _, l := range plain {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	for _, l := range plain {
		i.serve(&http.Server{Handler: handler}, l, func(s *http.Server, l net.Listener) error { return s.Serve(l) })
	}
	for _, l := range secure {
		i.serve(&http.Server{Handler: handler, TLSConfig: &tls.Config{GetCertificate: i.certificate, MinVersion: tls.VersionTLS12}}, l,
			func(s *http.Server, l net.Listener) error { return s.ServeTLS(l, "", "") })
	}
	return nil
}

// open listens on a port, or on the two that replace it where the process may not.
func (i *Ingress) open(port, alternate uint16) ([]net.Listener, error) {
	l, err := net.Listen("tcp4", netip.AddrPortFrom(i.cfg.At, port).String())
	if err == nil {
		return []net.Listener{l}, nil
	}
	moved, ok := addr.Unprivileged(port)
	if !ok || !errors.Is(err, syscall.EACCES) {
		return nil, err
	}
	var all []net.Listener
	for _, p := range []uint16{alternate, moved} { // the second is for pods
		l, err := net.Listen("tcp4", netip.AddrPortFrom(i.cfg.At, p).String())
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// headerTime bounds how long a client takes to send the header of a request.
const headerTime = time.Minute

func (i *Ingress) serve(s *http.Server, l net.Listener, run func(*http.Server, net.Listener) error) {
	s.ReadHeaderTimeout = headerTime
	s.ErrorLog = log.New(debugLog{i.log}, "", 0) // of clients that break off
	i.servers = append(i.servers, s)
	i.serving.Go(func() {
		if err := run(s, l); !errors.Is(err, http.ErrServerClosed) {
			i.log.Warn("ingress", "err", err)
		}
	})
}

// debugLog writes what a server logs at the level debug.
type debugLog struct{ to *slog.Logger }

// Write implements io.Writer.
func (d debugLog) Write(line []byte) (int, error) {
	d.to.Debug(fmt.Sprintf("ingress: %s", line))
	return len(line), nil
}

// close closes the ports and all connections.
func (i *Ingress) close() {
	i.mu.Lock()
	all := i.servers
	i.servers = nil
	i.mu.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
	i.serving.Wait()
	if i.closeIdle != nil {
		i.closeIdle()
	}
}
