package whatif_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// TestPodGroupsAreValidated checks that a PodGroup that the API refuses is refused, in the API's words, with its file.
func TestPodGroupsAreValidated(t *testing.T) {
	const kubernetes = "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: "
	const labelled = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: "
	const definition = `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.x-k8s.io}
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {kind: PodGroup, plural: podgroups}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {minMember: {type: integer, maximum: 5, default: 4}}}}}}
`
	for _, c := range []struct{ name, text, want string }{
		{"valid", kubernetes + "{schedulingPolicy: {gang: {minCount: 2}}}", ""},
		{"no policy", kubernetes + "{}", `g.yaml: PodGroup.scheduling.k8s.io "g" is invalid: spec.schedulingPolicy: Invalid value: "": must specify one of: ` + "`basic`, `gang`"},
		{"no minimum", kubernetes + "{schedulingPolicy: {gang: {}}}", `g.yaml: PodGroup.scheduling.k8s.io "g" is invalid: spec.schedulingPolicy.gang.minCount: Required value`},
		{"constraints", kubernetes + "{schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: a b}]}}", `spec.schedulingConstraints.topology[0].key: Invalid value: "a b"`},
		{"unknown field", kubernetes + "{schedulingPolicies: {}}", `g.yaml: PodGroup g: strict decoding error: unknown field "spec.schedulingPolicies"`},
		{"other version", strings.Replace(kubernetes, "v1alpha2", "v1", 1) + "{}", `g.yaml: PodGroup g: no matches for kind "PodGroup" in version "scheduling.k8s.io/v1"`},
		{"name", strings.Replace(kubernetes, "name: g", "name: G_", 1) + "{schedulingPolicy: {basic: {}}}", `metadata.name: Invalid value: "G_"`},
		{"labelled, valid", labelled + "{minMember: 2, minResources: {cpu: 1, memory: 1Gi}, scheduleTimeoutSeconds: 3}", ""},
		{"labelled, no members", labelled + "{minMember: 0}", `g.yaml: PodGroup.scheduling.x-k8s.io "g" is invalid: spec.minMember: Invalid value: 0: spec.minMember in body should be greater than or equal to 1`},
		{"labelled, type", labelled + "{minMember: two}", `spec.minMember: Invalid value: "string": spec.minMember in body must be of type integer: "string"`},
		{"labelled, unknown field", labelled + "{minMembers: 2}", `g.yaml: PodGroup g: strict decoding error: unknown field "spec.minMembers"`},
		{"labelled, other version", strings.Replace(labelled, "v1alpha1", "v1", 1) + "{}", `no matches for kind "PodGroup" in version "scheduling.x-k8s.io/v1"`},
		{"labelled, own definition", labelled + "{minMember: 6}" + definition, `spec.minMember: Invalid value: 6: spec.minMember in body should be less than or equal to 5`},
		{"labelled, own default", labelled + "{}" + definition, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []whatif.Manifest
			for _, doc := range strings.Split(c.text, "---\n") {
				u := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
					t.Fatal(err)
				}
				list = append(list, whatif.Manifest{Unstructured: u, File: "g.yaml"})
			}
			m, _, err := whatif.Read(list, "default")
			if err == nil {
				err = m.Complete()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if c.name == "labelled, own default" {
				if n, _, _ := unstructured.NestedInt64(m.PodGroups[0].(*unstructured.Unstructured).Object, "spec", "minMember"); n != 4 {
					t.Errorf("minMember: got %d, want the default 4", n)
				}
			}
		})
	}
}
