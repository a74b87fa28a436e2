package fair

import (
	"cmp"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Concurrency is Kubernetes' default limit of requests at a time (400 reads and 200 writes). It scales how many requests may wait: as
// many as Kubernetes would execute or queue.
const Concurrency = 600

// Request is what FlowSchemas match.
type Request struct {
	User                                user.Info
	Verb                                string
	IsResource                          bool
	Group, Resource, Subresource, Scope string // Scope is the namespace
	Path                                string // of a request for no resource
}

// Class is the FlowSchema of requests, with its priority level.
type Class struct {
	Schema, SchemaUID string
	Level, LevelUID   string
	Exempt            bool // its requests need no seat of the level

	distinguisher flowcontrolv1.FlowDistinguisherMethodType // "": the schema is one flow
}

// Flow returns the flow of a request.
func (c *Class) Flow(q *Request) Flow {
	f := Flow{Schema: c.Schema}
	switch c.distinguisher {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		f.Distinguisher = q.User.GetName()
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		f.Distinguisher = q.Scope
	}
	return f
}

// Rules are the FlowSchemas and priority levels of a cluster. They don't change.
type Rules struct {
	Levels  []Level // which give seats
	classes []class
}

type class struct {
	Class
	rules []flowcontrolv1.PolicyRulesWithSubjects
}

// NewRules returns the rules of FlowSchemas and levels, which must not be changed afterwards. FlowSchemas of levels that do not exist are
// left out.
func NewRules(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) *Rules {
	r := &Rules{}
	byName := map[string]*flowcontrolv1.PriorityLevelConfiguration{}
	for _, l := range levels {
		byName[l.Name] = l
	}
	schemas = slices.SortedFunc(slices.Values(schemas), func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), strings.Compare(a.Name, b.Name))
	})
	for _, s := range schemas {
		l := byName[s.Spec.PriorityLevelConfiguration.Name]
		if l == nil {
			continue
		}
		c := class{Class{
			Schema: s.Name, SchemaUID: string(s.UID), Level: l.Name, LevelUID: string(l.UID),
			Exempt: l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt,
		}, s.Spec.Rules}
		if d := s.Spec.DistinguisherMethod; d != nil {
			c.distinguisher = d.Type
		}
		r.classes = append(r.classes, c)
	}
	shares, lendable := 0, 0
	for _, l := range levels {
		n, lend := sharesOf(l)
		shares += n
		lendable += n * lend
	}
	for _, l := range levels {
		if l.Spec.Limited != nil {
			r.Levels = append(r.Levels, newLevel(l, shares, lendable))
		}
	}
	return r
}

// sharesOf returns a level's shares, and how many percent of them it lends.
func sharesOf(l *flowcontrolv1.PriorityLevelConfiguration) (shares, lendable int) {
	var n, lend *int32
	switch {
	case l.Spec.Limited != nil:
		n, lend = l.Spec.Limited.NominalConcurrencyShares, l.Spec.Limited.LendablePercent
	case l.Spec.Exempt != nil:
		n, lend = l.Spec.Exempt.NominalConcurrencyShares, l.Spec.Exempt.LendablePercent
	}
	return number(n, 0), number(lend, 0)
}

func number(n *int32, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(*n)
}

// newLevel returns a limited level. lendable is the sum of the percents of shares that levels lend.
func newLevel(l *flowcontrolv1.PriorityLevelConfiguration, shares, lendable int) Level {
	n, lend := sharesOf(l)
	out := Level{Name: l.Name, Shares: n, Reserve: 100 - lend, Borrow: number(l.Spec.Limited.BorrowingLimitPercent, -1)}
	q := l.Spec.Limited.LimitResponse.Queuing
	if q == nil || l.Spec.Limited.LimitResponse.Type != flowcontrolv1.LimitResponseTypeQueue {
		return out
	}
	own := portion(Concurrency, n, shares)
	borrowed := portion(Concurrency, lendable-n*lend, shares*100)
	if out.Borrow >= 0 {
		borrowed = min(borrowed, portion(own, out.Borrow, 100))
	}
	out.Waiting = own + borrowed + int(q.Queues)*int(q.QueueLengthLimit)
	out.PerFlow = own + borrowed + int(q.HandSize)*int(q.QueueLengthLimit)
	return out
}

// Classify returns the class of a request: that of the first matching FlowSchema. It is nil when none matches.
func (r *Rules) Classify(q *Request) *Class {
	for i := range r.classes {
		for j := range r.classes[i].rules {
			if matches(&r.classes[i].rules[j], q) {
				return &r.classes[i].Class
			}
		}
	}
	return nil
}

func matches(p *flowcontrolv1.PolicyRulesWithSubjects, q *Request) bool {
	if !slices.ContainsFunc(p.Subjects, func(s flowcontrolv1.Subject) bool { return matchesSubject(&s, q.User) }) {
		return false
	}
	if !q.IsResource {
		for i := range p.NonResourceRules {
			if n := &p.NonResourceRules[i]; containsOrAll(n.Verbs, q.Verb) && matchesPath(n.NonResourceURLs, q.Path) {
				return true
			}
		}
		return false
	}
	for i := range p.ResourceRules {
		if matchesResource(&p.ResourceRules[i], q) {
			return true
		}
	}
	return false
}

func matchesSubject(s *flowcontrolv1.Subject, u user.Info) bool {
	switch {
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
		return s.User.Name == flowcontrolv1.NameAll || s.User.Name == u.GetName()
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
		return s.Group.Name == flowcontrolv1.NameAll || slices.Contains(u.GetGroups(), s.Group.Name)
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		if s.ServiceAccount.Name == flowcontrolv1.NameAll {
			rest, ok := strings.CutPrefix(u.GetName(), serviceaccount.ServiceAccountUsernamePrefix)
			return ok && strings.HasPrefix(rest, s.ServiceAccount.Namespace+serviceaccount.ServiceAccountUsernameSeparator)
		}
		return serviceaccount.MatchesUsername(s.ServiceAccount.Namespace, s.ServiceAccount.Name, u.GetName())
	}
	return false
}

func matchesResource(p *flowcontrolv1.ResourcePolicyRule, q *Request) bool {
	if !containsOrAll(p.Verbs, q.Verb) || !containsOrAll(p.APIGroups, q.Group) || !hasResource(p.Resources, q) {
		return false
	}
	if q.Scope == "" {
		return p.ClusterScope
	}
	return containsOrAll(p.Namespaces, q.Scope)
}

func hasResource(list []string, q *Request) bool {
	if q.Subresource == "" {
		return containsOrAll(list, q.Resource)
	}
	return slices.ContainsFunc(list, func(s string) bool {
		resource, sub, ok := strings.Cut(s, "/")
		return s == all || ok && resource == q.Resource && sub == q.Subresource
	})
}

// all matches every value in a list of a rule; flowcontrolv1 has a constant of it for each kind of list.
const all = "*"

func containsOrAll(list []string, value string) bool {
	return len(list) == 1 && list[0] == all || slices.Contains(list, value)
}

// matchesPath reports whether a path is one of the URLs, or below one that ends with "/*".
func matchesPath(urls []string, path string) bool {
	return slices.ContainsFunc(urls, func(u string) bool {
		if u == all || u == path {
			return true
		}
		prefix := strings.TrimSuffix(u, "*")
		return strings.HasPrefix(path, prefix) && (strings.HasSuffix(prefix, "/") || strings.HasPrefix(path[len(prefix):], "/"))
	})
}
