package ingress

import (
	"cmp"
	"net"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// table says which backend serves a request. It is built from all Ingresses of the class and not changed afterwards.
type table struct {
	hosts    map[string]*rules // by host in lower case, "*.example.com" for a wildcard, "" for all hosts
	fallback *backend          // for requests that no rule matches; nil: there is none
	secrets  map[string]objects.Key
}

// rules are the paths of one host, the longest first.
type rules struct{ paths []path }

type path struct {
	text  string
	exact bool
	to    backend
}

// backend is a port of a Service.
type backend struct {
	service objects.Key
	port    networkingv1.ServiceBackendPort
}

// newTable builds the table. Of several Ingresses with one host and path the oldest counts.
func newTable(all []*networkingv1.Ingress) *table {
	t := &table{hosts: map[string]*rules{}, secrets: map[string]objects.Key{}}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, in := range all {
		t.add(in)
	}
	for _, r := range t.hosts {
		slices.SortStableFunc(r.paths, func(a, b path) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), compareBool(b.exact, a.exact))
		})
	}
	return t
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (t *table) add(in *networkingv1.Ingress) {
	all := backendOf(in, in.Spec.DefaultBackend)
	if t.fallback == nil {
		t.fallback = all
	}
	for _, s := range in.Spec.TLS {
		for _, host := range s.Hosts {
			if name := strings.ToLower(host); s.SecretName != "" && t.secrets[name] == (objects.Key{}) {
				t.secrets[name] = objects.Key{Namespace: in.Namespace, Name: s.SecretName}
			}
		}
	}
	for _, rule := range in.Spec.Rules {
		host := strings.ToLower(rule.Host)
		if t.hosts[host] == nil {
			t.hosts[host] = &rules{}
		}
		if rule.HTTP == nil {
			if all != nil { // the default backend serves all of the host
				t.hosts[host].paths = append(t.hosts[host].paths, path{to: *all})
			}
			continue
		}
		for _, p := range rule.HTTP.Paths {
			to := backendOf(in, &p.Backend)
			if to == nil {
				continue
			}
			exact := p.PathType != nil && *p.PathType == networkingv1.PathTypeExact
			text := p.Path
			if !exact {
				text = strings.TrimRight(text, "/")
			}
			t.hosts[host].paths = append(t.hosts[host].paths, path{text, exact, *to})
		}
	}
}

// backendOf returns the Service of a backend, nil without a backend and for one that is a resource of another API group.
func backendOf(in *networkingv1.Ingress, b *networkingv1.IngressBackend) *backend {
	if b == nil || b.Service == nil {
		return nil
	}
	return &backend{objects.Key{Namespace: in.Namespace, Name: b.Service.Name}, b.Service.Port}
}

// route returns the backend of a request, nil if no rule matches and there is no default backend. Of the hosts that match, the most specific
// counts; of the paths the longest, and of equal ones the exact one, as the API describes.
func (t *table) route(host, requested string) *backend {
	host = hostOf(host)
	for _, name := range []string{host, wildcard(host), ""} {
		r := t.hosts[name]
		if r == nil {
			continue
		}
		for i := range r.paths {
			if r.paths[i].matches(requested) {
				return &r.paths[i].to
			}
		}
		if name != "" {
			break // another host's rules don't count
		}
	}
	return t.fallback
}

// secret returns the Secret with the certificate for a host.
func (t *table) secret(host string) (objects.Key, bool) {
	host = strings.ToLower(host)
	for _, name := range []string{host, wildcard(host)} {
		if key, ok := t.secrets[name]; ok {
			return key, true
		}
	}
	return objects.Key{}, false
}

// hostOf returns the host of a request in lower case, without a port.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// wildcard returns the wildcard that matches a host; it covers one label.
func wildcard(host string) string {
	if _, rest, ok := strings.Cut(host, "."); ok {
		return "*." + rest
	}
	return "*."
}

// matches reports whether the path of a request matches: equal, or with the elements of the path at its start.
func (p *path) matches(requested string) bool {
	if p.exact {
		return requested == p.text
	}
	rest, ok := strings.CutPrefix(requested, p.text)
	return ok && (rest == "" || rest[0] == '/')
}
