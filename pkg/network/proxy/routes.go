package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Router is a runtime that leads the connections of its pods from the addresses of Services to their endpoints, without the proxy. Its
// methods keep the lists.
type Router interface {
	// SetRoutes makes all the routes. ranges are the prefixes of the Services' addresses: those without a route refuse connections.
	SetRoutes(ranges []string, all []wire.Route)
	// ChangeRoutes changes some of the routes, after SetRoutes.
	ChangeRoutes(changed []wire.Route)
	// SetServiceRanges changes the ranges.
	SetServiceRanges(ranges []string)
	// OlderPods returns the running pods that were started when no Service had an address off loopback. The router does not see all that they
	// send to one.
	OlderPods() []types.UID
}

// routes are the routes that the routers have. An address has one owner, as it has in the proxy.
type routes struct {
	routers []Router
	cidrs   *client.Cache[*networkingv1.ServiceCIDR]
	fixed   string // the range that is always one of the cluster's Services

	warned map[string]map[types.UID]bool // the pods with an Event that they are older than a ServiceCIDR, by its name; used by reconcileRanges only

	mu    sync.Mutex
	owner map[frontend]objects.Key
	owned map[objects.Key][]frontend
}

func newRoutes(cfg Config, cidrs *client.Cache[*networkingv1.ServiceCIDR]) routes {
	return routes{
		routers: cfg.Routers, cidrs: cidrs, fixed: cfg.Range.Services().String(),
		warned: map[string]map[types.UID]bool{}, owner: map[frontend]objects.Key{}, owned: map[objects.Key][]frontend{},
	}
}

// routesOf returns where the addresses of a Service lead pods; nothing for nil.
func (p *Proxy) routesOf(svc *corev1.Service) map[frontend]backends {
	if svc == nil {
		return nil
	}
	hosts := p.hosts
	hosts.pods = true
	return frontendsOf(svc, p.slicesOf(keyOf(svc)), hosts)
}

func keyOf(svc *corev1.Service) objects.Key {
	return objects.Key{Namespace: svc.Namespace, Name: svc.Name}
}

// setRoutes gives the routers the routes of all Services and host ports, in place of those that an earlier proxy has given.
func (p *Proxy) setRoutes() {
	if len(p.routes.routers) == 0 {
		return
	}
	p.routes.mu.Lock()
	defer p.routes.mu.Unlock()
	var all []wire.Route
	for _, svc := range p.services.List("", nil) {
		all = append(all, p.routes.update(keyOf(svc), p.routesOf(svc))...)
	}
	ports := map[objects.Key]struct{}{}
	for _, pod := range p.pods.List("", nil) {
		for _, h := range hostPortsOf(pod) {
			ports[objects.Key{Name: nameOf(&h)}] = struct{}{}
		}
	}
	for key := range ports {
		want, _ := p.hostPort(key)
		all = append(all, p.routes.update(key, want)...)
	}
	for _, r := range p.routes.routers {
		r.SetRoutes(p.routes.ranges(), all)
	}
}

// change makes want the routes of an owner.
func (r *routes) change(owner objects.Key, want map[frontend]backends) {
	if len(r.routers) == 0 {
		return
	}
	r.mu.Lock() // so that an address that passes to another owner does so for the routers, too
	defer r.mu.Unlock()
	changed := r.update(owner, want)
	for _, router := range r.routers {
		router.ChangeRoutes(changed)
	}
}

// update returns the routes that make want those of an owner. r.mu must be held.
func (r *routes) update(owner objects.Key, want map[frontend]backends) []wire.Route {
	var changed []wire.Route
	for _, f := range r.owned[owner] {
		if _, ok := want[f]; !ok {
			delete(r.owner, f)
			changed = append(changed, wire.Route{Protocol: string(f.protocol), Address: f.address.String(), Gone: true})
		}
	}
	var owned []frontend
	for f, to := range want {
		if has, ok := r.owner[f]; ok && has != owner {
			continue
		}
		r.owner[f] = owner
		owned = append(owned, f)
		changed = append(changed, routeOf(f, to))
	}
	if r.owned[owner] = owned; len(owned) == 0 {
		delete(r.owned, owner)
	}
	return changed
}

func routeOf(f frontend, to backends) wire.Route {
	out := wire.Route{Protocol: string(f.protocol), Address: f.address.String(), Affinity: to.affinity, Local: to.local}
	for _, e := range to.endpoints {
		w := wire.RouteEndpoint{Address: e.address.String()}
		if to.local {
			w.Node = e.node
		}
		out.Endpoints = append(out.Endpoints, w)
	}
	for _, p := range to.sources {
		out.Sources = append(out.Sources, p.String())
	}
	return out
}

// serviceCIDRs is the resource of the ranges of Services' addresses.
var serviceCIDRs = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")

// ranges returns the prefixes of the Services' addresses.
func (r *routes) ranges() []string {
	all := []string{r.fixed}
	for _, c := range r.cidrs.List("", nil) {
		all = append(all, c.Spec.CIDRs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (p *Proxy) reconcileRanges(ctx context.Context, key objects.Key) (time.Duration, error) {
	for _, router := range p.routes.routers {
		router.SetServiceRanges(p.routes.ranges())
	}
	c, ok := p.routes.cidrs.Get(key)
	if !ok || !offLoopback(c.Spec.CIDRs) {
		delete(p.routes.warned, key.Name)
		return 0, nil
	}
	older := map[types.UID]bool{}
	for _, router := range p.routes.routers {
		for _, uid := range router.OlderPods() {
			older[uid] = true
		}
	}
	p.warnOlderPods(ctx, c, older)
	return lookForOlderPods, nil // one may be starting
}

// lookForOlderPods is the pause between two looks for pods that are older than a ServiceCIDR.
const lookForOlderPods = 10 * time.Second

// warnOlderPods writes an Event for each of the older pods that has none yet.
func (p *Proxy) warnOlderPods(ctx context.Context, c *networkingv1.ServiceCIDR, older map[types.UID]bool) {
	for _, pod := range p.routes.unwarned(c.Name, p.pods.List("", nil), older) {
		what := "Datagrams that its programs send by sendmsg or sendmmsg"
		if pod.Spec.HostNetwork {
			what = "Packets"
		}
		p.cfg.Events.Event(ctx, pod, corev1.EventTypeWarning, "RestartNeeded", fmt.Sprintf(
			"The pod is older than the ServiceCIDR %s. %s to addresses in %s leave this machine until the pod is restarted",
			c.Name, what, strings.Join(c.Spec.CIDRs, ", ")))
	}
}

// unwarned returns the pods that are older than a ServiceCIDR and have no Event about it, and records that they have one now. It forgets
// pods that are gone.
func (r *routes) unwarned(cidr string, pods []*corev1.Pod, older map[types.UID]bool) []*corev1.Pod {
	warned := map[types.UID]bool{}
	var out []*corev1.Pod
	for _, pod := range pods {
		switch before := r.warned[cidr][pod.UID]; {
		case !before && !older[pod.UID]:
			continue
		case !before:
			out = append(out, pod)
		}
		warned[pod.UID] = true
	}
	r.warned[cidr] = warned
	return out
}

// offLoopback reports whether one of the IPv4 prefixes has addresses that are not on loopback.
func offLoopback(cidrs []string) bool {
	return slices.ContainsFunc(cidrs, func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Addr().Is4() && !p.Addr().IsLoopback()
	})
}
