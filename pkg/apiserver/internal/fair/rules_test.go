package fair

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects/flowcontrol"
)

func TestClassify(t *testing.T) {
	rules := NewRules(flowcontrol.SystemSchemas(), flowcontrol.SystemLevels())
	resource := func(name, verb, group, resource, namespace string, groups ...string) *Request {
		return &Request{User: &user.DefaultInfo{Name: name, Groups: groups}, IsResource: true, Verb: verb, Group: group, Resource: resource, Scope: namespace}
	}
	const authenticated = user.AllAuthenticated
	sub := resource("system:node:n", "patch", "", "nodes", "", "system:nodes", authenticated)
	sub.Subresource = "status"
	for want, q := range map[string]*Request{
		"exempt exempt ":                                               resource("admin", "list", "", "pods", "", user.SystemPrivilegedGroup, authenticated),
		"global-default global-default alice":                          resource("alice", "create", "", "pods", "n", authenticated),
		"service-accounts workload-low system:serviceaccount:n:a":      resource("system:serviceaccount:n:a", "list", "", "pods", "n", "system:serviceaccounts", "system:serviceaccounts:n", authenticated),
		"kube-system-service-accounts workload-high n":                 resource("system:serviceaccount:kube-system:a", "list", "", "pods", "n", "system:serviceaccounts", authenticated),
		"system-node-high node-high system:node:n":                     sub,
		"system-nodes system system:node:n":                            resource("system:node:n", "list", "", "pods", "", "system:nodes", authenticated),
		"system-leader-election leader-election system:kube-scheduler": resource("system:kube-scheduler", "update", "coordination.k8s.io", "leases", "kube-system", authenticated),
		"kube-scheduler workload-high kube-system":                     resource("system:kube-scheduler", "create", "", "pods", "kube-system", authenticated),
		"probes exempt ":                                               {User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, Verb: "get", Path: "/readyz"},
		"global-default global-default system:anonymous":               {User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, Verb: "get", Path: "/readyzx"},
	} {
		c := rules.Classify(q)
		if c == nil {
			t.Errorf("no class, want %s", want)
			continue
		}
		if got := c.Schema + " " + c.Level + " " + c.Flow(q).Distinguisher; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	rule := flowcontrolv1.PolicyRulesWithSubjects{
		Subjects: []flowcontrolv1.Subject{{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "n", Name: "*"}}},
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
			Verbs: []string{"get", "list"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "deployments/scale"}, Namespaces: []string{"n"},
		}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"/metrics", "/logs/*"}}},
	}
	base := Request{User: &user.DefaultInfo{Name: "system:serviceaccount:n:a"}, IsResource: true, Verb: "get", Group: "apps", Resource: "deployments", Scope: "n"}
	path := func(p string) func(*Request) {
		return func(q *Request) { q.IsResource, q.Path = false, p }
	}
	for name, c := range map[string]struct {
		change func(*Request)
		want   bool
	}{
		"same":                 {func(*Request) {}, true},
		"another namespace's":  {func(q *Request) { q.User = &user.DefaultInfo{Name: "system:serviceaccount:nn:a"} }, false},
		"a user":               {func(q *Request) { q.User = &user.DefaultInfo{Name: "a"} }, false},
		"another verb":         {func(q *Request) { q.Verb = "create" }, false},
		"another group":        {func(q *Request) { q.Group = "" }, false},
		"listed subresource":   {func(q *Request) { q.Subresource = "scale" }, true},
		"another subresource":  {func(q *Request) { q.Subresource = "status" }, false},
		"another namespace":    {func(q *Request) { q.Scope = "m" }, false},
		"all namespaces":       {func(q *Request) { q.Scope = "" }, false},
		"path":                 {path("/metrics"), true},
		"below a path":         {path("/metrics/x"), true},
		"a longer name":        {path("/metricsx"), false},
		"below a path with /*": {path("/logs/x"), true},
		"another path":         {path("/version"), false},
	} {
		t.Run(name, func(t *testing.T) {
			q := base
			c.change(&q)
			if got := matches(&rule, &q); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestNewRules orders FlowSchemas by precedence and name, leaves out those without a level, and takes bounds from the levels.
func TestNewRules(t *testing.T) {
	schema := func(name, level string, precedence int32) *flowcontrolv1.FlowSchema {
		return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence: precedence, PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "*"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"/" + name}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"/all"}}},
			}},
		}}
	}
	level := func(name string, shares, lend int32, borrow *int32, q *flowcontrolv1.QueuingConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
		l := &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: &lend, BorrowingLimitPercent: borrow}
		l.LimitResponse = flowcontrolv1.LimitResponse{Type: "Reject"}
		if q != nil {
			l.LimitResponse = flowcontrolv1.LimitResponse{Type: "Queue", Queuing: q}
		}
		return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Limited", Limited: l}}
	}
	rules := NewRules(
		[]*flowcontrolv1.FlowSchema{schema("c", "rejects", 9), schema("b", "queues", 5), schema("a", "queues", 5), schema("first", "absent", 1)},
		[]*flowcontrolv1.PriorityLevelConfiguration{
			level("queues", 10, 0, nil, &flowcontrolv1.QueuingConfiguration{Queues: 8, HandSize: 2, QueueLengthLimit: 10}),
			level("rejects", 20, 50, new(int32(100)), nil),
		})
	q := &Request{User: &user.DefaultInfo{Name: "u", Groups: []string{"g"}}, Verb: "get", Path: "/all"}
	if got := rules.Classify(q).Schema; got != "a" {
		t.Errorf("got %s", got)
	}
	if q.Path = "/first"; rules.Classify(q) != nil {
		t.Error("a FlowSchema without its level matches")
	}
	want := []Level{
		{Name: "queues", Shares: 10, Reserve: 100, Borrow: -1, PerFlow: 200 + 200 + 20, Waiting: 200 + 200 + 80},
		{Name: "rejects", Shares: 20, Reserve: 50, Borrow: 100},
	}
	for i := range want {
		if rules.Levels[i] != want[i] {
			t.Errorf("got %+v, want %+v", rules.Levels[i], want[i])
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	rules := NewRules(flowcontrol.SystemSchemas(), flowcontrol.SystemLevels())
	q := &Request{User: &user.DefaultInfo{Name: "alice", Groups: []string{"developers", user.AllAuthenticated}}, IsResource: true, Verb: "get", Resource: "pods", Scope: "n"}
	b.ReportAllocs()
	for b.Loop() {
		if rules.Classify(q) == nil {
			b.Fatal("no class")
		}
	}
}
