package authz

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// TestDefaults checks that the default objects and the compiled rules grant the same rights.
func TestDefaults(t *testing.T) {
	roles, bindings := map[string]*rbacv1.ClusterRole{}, map[string]*rbacv1.ClusterRoleBinding{}
	seen := map[string]bool{}
	for _, obj := range Defaults(feature.Gates{}) {
		id := fmt.Sprintf("%T %s/%s", obj, obj.GetNamespace(), obj.GetName())
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if obj.GetLabels()[bootstrappingLabel] != rbacDefaults || obj.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] != "true" {
			t.Errorf("%s is not marked", id)
		}
		switch o := obj.(type) {
		case *rbacv1.ClusterRole:
			roles[o.Name] = o
		case *rbacv1.ClusterRoleBinding:
			bindings[o.Name] = o
		}
	}
	for name, b := range bindings {
		if roles[b.RoleRef.Name] == nil || (len(b.Subjects) == 0) != (name == "system:node") {
			t.Errorf("%s binds %v to %v", name, b.RoleRef, b.Subjects)
		}
	}
	for _, name := range []string{"cluster-admin", "admin", "edit", "view", "system:node", "system:discovery", "system:auth-delegator", "system:certificates.k8s.io:legacy-unknown-approver"} {
		if roles[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if roles["view"].Labels[aggregateTo+"edit"] != "true" || roles["edit"].AggregationRule == nil || roles["system:node"].AggregationRule != nil {
		t.Error("the roles for people are not made of each other")
	}
	if bindings["view"] != nil {
		t.Error("a default binding refers to a role without subjects")
	}
}

// TestDefaultsAreKubernetes: the default objects grant the same rights as those of Kubernetes v1.36.3, but for those of minikctl itself.
// testdata/defaults.txt has a digest of each of Kubernetes' objects.
func TestDefaultsAreKubernetes(t *testing.T) {
	b, err := os.ReadFile("testdata/defaults.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(b)), "\n")
	var got []string
	for _, obj := range Defaults(feature.Gates{}) {
		if !strings.HasPrefix(obj.GetName(), "minikctl:") {
			kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
			got = append(got, fmt.Sprintf("%s %s/%s %x", kind, obj.GetNamespace(), obj.GetName(), digest(obj)))
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("differs from Kubernetes, or is not there: %s\n%s", line, strings.Join(grants(obj(line)), "\n"))
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("is missing, or differs: %s", line)
		}
	}
}

// obj returns the default object of a line.
func obj(line string) objects.Object {
	all := Defaults(feature.Gates{})
	i := slices.IndexFunc(all, func(o objects.Object) bool {
		return strings.HasPrefix(line, fmt.Sprintf("%s %s/%s ", strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."), o.GetNamespace(), o.GetName()))
	})
	return all[i]
}

func digest(obj objects.Object) []byte {
	sum := sha256.Sum256([]byte(strings.Join(grants(obj), "\n")))
	return sum[:6]
}

// grants returns lines with everything that an object grants, each verb and resource of its own, and its labels and annotations. They are
// sorted and without duplicates, so that rules that are divided otherwise are equal.
func grants(obj objects.Object) []string {
	lines := map[string]bool{}
	add := func(format string, args ...any) { lines[fmt.Sprintf(format, args...)] = true }
	for k, v := range obj.GetLabels() {
		add("label %s=%s", k, v)
	}
	for k, v := range obj.GetAnnotations() {
		add("annotation %s=%s", k, v)
	}
	var rules []rbacv1.PolicyRule
	var subjects []rbacv1.Subject
	var role rbacv1.RoleRef
	switch o := obj.(type) {
	case *rbacv1.ClusterRole:
		rules = o.Rules
		if a := o.AggregationRule; a != nil {
			rules = nil // a controller fills them
			for _, s := range a.ClusterRoleSelectors {
				for k, v := range s.MatchLabels {
					add("aggregate %s=%s", k, v)
				}
			}
		}
	case *rbacv1.Role:
		rules = o.Rules
	case *rbacv1.ClusterRoleBinding:
		role, subjects = o.RoleRef, o.Subjects
	case *rbacv1.RoleBinding:
		role, subjects = o.RoleRef, o.Subjects
	}
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				add("%s %s", verb, url)
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range names {
						add("%s %s %s %s", verb, group, resource, name)
					}
				}
			}
		}
	}
	if role.Name != "" {
		add("role %s %s", role.Kind, role.Name)
	}
	for _, s := range subjects {
		add("subject %s %s/%s", s.Kind, s.Namespace, s.Name)
	}
	return slices.Sorted(maps.Keys(lines))
}
