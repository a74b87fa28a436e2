package ingress

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// ingressOf returns an Ingress of the given age with rules.
func ingressOf(name string, age time.Duration, rules ...networkingv1.IngressRule) *networkingv1.Ingress {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age)
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec:       networkingv1.IngressSpec{Rules: rules},
	}
}

// ruleOf returns a rule for a host: pairs of a path and the Service that serves it. A path that begins with "=" is exact.
func ruleOf(host string, pairs ...string) networkingv1.IngressRule {
	r := networkingv1.IngressRule{Host: host}
	for i := 0; i < len(pairs); i += 2 {
		text, kind := pairs[i], networkingv1.PathTypePrefix
		if text[0] == '=' {
			text, kind = text[1:], networkingv1.PathTypeExact
		}
		if r.HTTP == nil {
			r.HTTP = &networkingv1.HTTPIngressRuleValue{}
		}
		r.HTTP.Paths = append(r.HTTP.Paths, networkingv1.HTTPIngressPath{Path: text, PathType: &kind, Backend: *serviceBackend(pairs[i+1])})
	}
	return r
}

func serviceBackend(name string) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func withDefault(in *networkingv1.Ingress, service string) *networkingv1.Ingress {
	in.Spec.DefaultBackend = serviceBackend(service)
	return in
}

// TestRoute follows the examples of the API's documentation.
func TestRoute(t *testing.T) {
	one := func(rules ...networkingv1.IngressRule) []*networkingv1.Ingress {
		return []*networkingv1.Ingress{ingressOf("one", 0, rules...)}
	}
	resource := ingressOf("resource", 0, ruleOf("", "/icons", "x"))
	resource.Spec.Rules[0].HTTP.Paths[0].Backend = networkingv1.IngressBackend{}
	for _, c := range []struct {
		name       string
		all        []*networkingv1.Ingress
		host, path string
		want       string // the Service; "": none
	}{
		{"no Ingress", nil, "a.test", "/", ""},
		{"every path", one(ruleOf("", "/", "all")), "a.test", "/any/path", "all"},
		{"exact", one(ruleOf("", "=/foo", "s")), "a.test", "/foo", "s"},
		{"exact, other path", one(ruleOf("", "=/foo", "s")), "a.test", "/bar", ""},
		{"exact, slash at the request's end", one(ruleOf("", "=/foo", "s")), "a.test", "/foo/", ""},
		{"exact, slash at the rule's end", one(ruleOf("", "=/foo/", "s")), "a.test", "/foo", ""},
		{"prefix is equal", one(ruleOf("", "/foo", "s")), "a.test", "/foo", "s"},
		{"prefix, slash at the request's end", one(ruleOf("", "/foo", "s")), "a.test", "/foo/", "s"},
		{"prefix, slash at the rule's end", one(ruleOf("", "/foo/", "s")), "a.test", "/foo", "s"},
		{"prefix of elements", one(ruleOf("", "/aaa/bbb", "s")), "a.test", "/aaa/bbb/ccc", "s"},
		{"not a prefix of elements", one(ruleOf("", "/aaa/bbb", "s")), "a.test", "/aaa/bbbxyz", ""},
		{"upper case counts", one(ruleOf("", "/foo", "s")), "a.test", "/FOO", ""},
		{"the longest path", one(ruleOf("", "/", "root", "/aaa/bbb", "long", "/aaa", "short")), "a.test", "/aaa/bbb/c", "long"},
		{"the shorter path for others", one(ruleOf("", "/", "root", "/aaa/bbb", "long", "/aaa", "short")), "a.test", "/aaa/ccc", "short"},
		{"exact before prefix", one(ruleOf("", "/foo", "prefix", "=/foo", "exact")), "a.test", "/foo", "exact"},
		{"the host", one(ruleOf("a.test", "/", "a"), ruleOf("b.test", "/", "b")), "b.test", "/", "b"},
		{"the host with a port, in capitals", one(ruleOf("a.test", "/", "a")), "A.Test:8080", "/", "a"},
		{"no rule for the host", one(ruleOf("a.test", "/", "a")), "c.test", "/", ""},
		{"wildcard", one(ruleOf("*.test.example", "/", "w")), "x.test.example", "/", "w"},
		{"wildcard covers one label", one(ruleOf("*.test.example", "/", "w")), "y.x.test.example", "/", ""},
		{"wildcard needs a label", one(ruleOf("*.test.example", "/", "w")), "test.example", "/", ""},
		{"host before wildcard", one(ruleOf("*.test", "/", "w"), ruleOf("a.test", "/", "a")), "a.test", "/", "a"},
		{"host before any", one(ruleOf("", "/long/path", "any"), ruleOf("a.test", "/", "a")), "a.test", "/long/path", "a"},
		{"the oldest", []*networkingv1.Ingress{
			ingressOf("a", time.Minute, ruleOf("", "/", "young")), ingressOf("b", time.Hour, ruleOf("", "/", "old"))}, "a.test", "/", "old"},
		{"paths of several Ingresses", []*networkingv1.Ingress{
			ingressOf("a", 0, ruleOf("a.test", "/a", "a")), ingressOf("b", 0, ruleOf("a.test", "/b", "b"))}, "a.test", "/b", "b"},
		{"default backend", []*networkingv1.Ingress{withDefault(ingressOf("a", 0, ruleOf("a.test", "/a", "a")), "rest")}, "a.test", "/b", "rest"},
		{"default backend of another host", []*networkingv1.Ingress{withDefault(ingressOf("a", 0), "rest")}, "b.test", "/", "rest"},
		{"host without paths", []*networkingv1.Ingress{
			withDefault(ingressOf("a", time.Hour), "first"), withDefault(ingressOf("b", 0, ruleOf("b.test")), "second")}, "b.test", "/", "second"},
		{"backend that is no Service", []*networkingv1.Ingress{resource}, "a.test", "/icons", ""},
	} {
		got := ""
		if b := newTable(c.all).route(c.host, c.path); b != nil {
			got = b.service.Name
		}
		if got != c.want {
			t.Errorf("%s: %s%s: got %q, want %q", c.name, c.host, c.path, got, c.want)
		}
	}
}

func TestSecret(t *testing.T) {
	in := ingressOf("a", 0)
	in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"A.test", "*.b.test"}, SecretName: "first"}, {Hosts: []string{"none.test"}}}
	later := ingressOf("b", 0)
	later.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.test"}, SecretName: "second"}}
	table := newTable([]*networkingv1.Ingress{later, in})
	for host, want := range map[string]string{"a.test": "first", "A.TEST": "first", "x.b.test": "first", "b.test": "", "none.test": "", "": ""} {
		key := objects.Key{}
		if want != "" {
			key = objects.Key{Namespace: "default", Name: want}
		}
		if got, _ := table.secret(host); got != key {
			t.Errorf("%s: got %v, want %v", host, got, key)
		}
	}
}
