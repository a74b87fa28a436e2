package apiextensions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// plain is a typical definition.
const plain = `
metadata: {name: shirts.example.com, resourceVersion: "1"}
spec:
  group: example.com
  names: {plural: shirts, kind: Shirt}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}}
`

// with returns plain with text replaced, after defaulting and preparation.
func with(t *testing.T, replace ...string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text := strings.NewReplacer(replace...).Replace(plain)
	if text == plain && len(replace) > 0 {
		t.Fatalf("nothing of %q is there", replace)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		t.Fatal(err)
	}
	setDefaults(crd)
	return crd
}

// made returns a definition after its creation.
func made(t *testing.T, replace ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := with(t, replace...)
	prepare(crd, nil)
	return crd
}

func TestDefaults(t *testing.T) {
	crd := made(t, "scope:", "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: a, name: b}}}}\n  scope:",
		"{type: string}", `{type: object, x-kubernetes-preserve-unknown-fields: true, default: {"z": 1.0,  "a": null}}`)
	names := crd.Spec.Names
	if names.Singular != "shirt" || names.ListKind != "ShirtList" || *crd.Spec.Conversion.Webhook.ClientConfig.Service.Port != 443 {
		t.Errorf("got %+v", crd.Spec)
	}
	size := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["size"]
	if got := string(size.Default.Raw); got != `{"a":null,"z":1}` {
		t.Errorf("default is %s", got)
	}
	if !slices.Equal(crd.Status.StoredVersions, []string{"v1"}) || crd.Generation != 1 {
		t.Errorf("status %+v, generation %d", crd.Status, crd.Generation)
	}
	again := crd.DeepCopy()
	if setDefaults(again); !equality.Semantic.DeepEqual(again, crd) {
		t.Errorf("twice is not the same as once:\n%v\n%v", again, crd)
	}
	if got := made(t).Spec.Conversion.Strategy; got != apiextensionsv1.NoneConverter {
		t.Errorf("without a conversion the strategy is %q", got)
	}
}

func TestCreates(t *testing.T) {
	tests := []struct {
		name    string
		replace []string
		want    string
	}{
		{"plain", nil, ""},
		{"name", []string{"name: shirts.example.com", "name: shirt.example.com"},
			`metadata.name: Invalid value: "shirt.example.com": must be spec.names.plural+"."+spec.group`},
		{"approved group", []string{"example.com", "example.k8s.io"},
			`metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`},
		{"approved", []string{"shirts.example.com,", "shirts.example.k8s.io, annotations: {api-approved.kubernetes.io: 'unapproved, a test'},", "group: example.com", "group: example.k8s.io"}, ""},
		{"unknown fields kept", []string{"scope:", "preserveUnknownFields: true\n  scope:"},
			"spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"},
		{"no schema", []string{"    schema: ", "    #"}, "spec.versions[0].schema.openAPIV3Schema: Required value"},
		{"not structural", []string{"{type: string}", "{description: x}"},
			"spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields"},
		{"rule", []string{"{type: string}", "{type: string, x-kubernetes-validations: [{rule: 'self >'}]}"},
			"spec.validation.openAPIV3Schema.properties[spec].properties[size].x-kubernetes-validations[0].rule: Invalid value: "},
		{"default of another type", []string{"{type: string}", "{type: string, default: 5}"},
			`spec.validation.openAPIV3Schema.properties[spec].properties[size].default: Invalid value: "integer":  in body must be of type string: "integer"`},
		{"two stored", []string{"  - name: v1", "  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n  - name: v1"},
			"spec.versions: Invalid value: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			crd := made(t, tt.replace...)
			before := crd.DeepCopy()
			refused(t, validate(crd, nil), tt.want)
			if !equality.Semantic.DeepEqual(before, crd) {
				t.Error("the checks changed the object")
			}
		})
	}
}

// refused compares the first error.
func refused(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	got := ""
	if len(errs) > 0 {
		got = errs[0].Error()
	}
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUpdates(t *testing.T) {
	const v2 = "  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n"
	tests := []struct {
		name        string
		established bool
		was, now    []string
		want        string
		generation  int64
		stored      []string
	}{
		{"nothing", true, nil, nil, "", 1, []string{"v1"}},
		{"labels", true, nil, []string{"name: shirts.example.com,", "name: shirts.example.com, labels: {a: b},"}, "", 1, []string{"v1"}},
		{"labels that are none", true, nil, []string{"name: shirts.example.com,", "name: shirts.example.com, labels: {a b: c},"}, `metadata.labels: Invalid value: "a b"`, 1, []string{"v1"}},
		{"approval is removed", true, []string{"shirts.example.com,", "shirts.example.k8s.io, annotations: {api-approved.kubernetes.io: 'https://example.com'},", "group: example.com", "group: example.k8s.io"},
			[]string{"shirts.example.com,", "shirts.example.k8s.io,", "group: example.com", "group: example.k8s.io"}, "metadata.annotations[api-approved.kubernetes.io]: Required value", 1, []string{"v1"}},
		{"column", true, nil, []string{"served: true", "served: true\n    additionalPrinterColumns: [{name: A, type: string, jsonPath: .spec.a}]"}, "", 2, []string{"v1"}},
		{"storage moves", true, nil, []string{"storage: true", "storage: false", "  - name: v1", v2 + "  - name: v1"}, "", 2, []string{"v1", "v2"}},
		{"stored version is removed", true, nil, []string{"- name: v1", "- name: v3"},
			`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`, 2, []string{"v1", "v3"}},
		{"scope of an established one", true, nil, []string{"Namespaced", "Cluster"}, `spec.scope: Invalid value: "Cluster": field is immutable`, 2, []string{"v1"}},
		{"scope of another", false, nil, []string{"Namespaced", "Cluster"}, "", 2, []string{"v1"}},
		{"kind of an established one", true, nil, []string{"kind: Shirt", "kind: Coat"}, `spec.names.kind: Invalid value: "Coat": field is immutable`, 2, []string{"v1"}},
		{"group", false, nil, []string{"group: example.com", "group: example.org"}, `spec.group: Invalid value: "example.org": field is immutable`, 2, []string{"v1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, crd := made(t, tt.was...), with(t, tt.now...)
			if tt.established {
				old.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
			}
			before := old.DeepCopy()
			prepare(crd, old)
			refused(t, validate(crd, old), tt.want)
			if crd.Generation != tt.generation || !slices.Equal(crd.Status.StoredVersions, tt.stored) {
				t.Errorf("generation %d, stored versions %v", crd.Generation, crd.Status.StoredVersions)
			}
			if !equality.Semantic.DeepEqual(before, old) {
				t.Error("the old object changed")
			}
		})
	}
}

func TestStatusWrites(t *testing.T) {
	old := made(t)
	crd := with(t, "kind: Shirt", "kind: Coat")
	crd.Status.StoredVersions, crd.Generation = nil, old.Generation // as the verbs do
	CustomResourceDefinitions.Status.Prepare(crd, old)
	if crd.Spec.Names.Kind != "Shirt" || len(crd.Status.StoredVersions) != 0 {
		t.Errorf("got %+v", crd)
	}
	refused(t, validateStatus(crd, old), "")
}

func TestWarnings(t *testing.T) {
	odd := []string{"{type: string}", "{type: string, format: size}, count: {type: integer, format: byte}, at: {type: string, format: date-time}"}
	if got, want := warnings(made(t, odd...), nil), []string{`unrecognized format "byte"`, `unrecognized format "size"`}; !slices.Equal(got, want) {
		t.Errorf("create: got %q, want %q", got, want)
	}
	old := made(t, "{type: string}", "{type: string, format: size}")
	if got, want := warnings(made(t, odd...), old), []string{`unrecognized format "byte"`}; !slices.Equal(got, want) {
		t.Errorf("update: got %q, want %q", got, want)
	}
}

func TestTerminate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	crd := made(t)
	terminate(crd, now)
	if !crd.DeletionTimestamp.Time.Equal(now) || !slices.Equal(crd.Finalizers, []string{apiextensionsv1.CustomResourceCleanupFinalizer}) {
		t.Errorf("got %+v", crd.ObjectMeta)
	}
	if c := crd.Status.Conditions; len(c) != 1 || c[0].Type != apiextensionsv1.Terminating || !c[0].LastTransitionTime.Time.Equal(now) {
		t.Errorf("got %+v", c)
	}
}

// TestValuesInSchemas checks that the values in the schemas of a definition are bounded, and that unchanged ones are not.
func TestValuesInSchemas(t *testing.T) {
	value := func(n int) *apiextensionsv1.JSON {
		return &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("a", n-2) + `"`)}
	}
	for name, test := range map[string]struct {
		schema  apiextensionsv1.JSONSchemaProps
		refused bool
	}{
		"default":           {schema: apiextensionsv1.JSONSchemaProps{Type: "string", Default: value(200 << 10)}},
		"large default":     {schema: apiextensionsv1.JSONSchemaProps{Type: "string", Default: value(300 << 10)}, refused: true},
		"example":           {schema: apiextensionsv1.JSONSchemaProps{Type: "string", Example: value(300 << 10)}, refused: true},
		"default and enum":  {schema: apiextensionsv1.JSONSchemaProps{Type: "string", Default: value(200 << 10), Enum: []apiextensionsv1.JSON{*value(100 << 10)}}, refused: true},
		"many small values": {schema: apiextensionsv1.JSONSchemaProps{Type: "integer", Enum: slices.Repeat([]apiextensionsv1.JSON{{Raw: []byte("1")}}, 20000)}, refused: true},
		"inside": {schema: apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", Default: value(300 << 10)},
		}}, refused: true},
	} {
		crd := made(t)
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["x"] = test.schema
		CustomResourceDefinitions.Default(crd)
		errs := validate(crd, nil)
		if !test.refused && len(errs) > 0 || test.refused && (len(errs) != 1 || !strings.Contains(errs[0].Detail, "defaults, enums and examples are too large")) {
			t.Errorf("%s: %.300v", name, errs.ToAggregate())
		}
		if len(validate(crd, crd)) > 0 || len(validateStatus(crd, crd)) > 0 {
			t.Errorf("%s: an unchanged definition is checked", name)
		}
	}
}

func TestNumberOfSchemas(t *testing.T) {
	for more, refused := range map[int]bool{0: false, 1: true} {
		crd := made(t)
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		inside := map[string]apiextensionsv1.JSONSchemaProps{}
		for i := range maxSchemas - numberOf(root) - 2 + more { // below an array and its items
			inside[fmt.Sprint("p", i)] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		root.Properties["x"] = apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: inside},
		}}
		errs := validate(crd, nil)
		if !refused && len(errs) > 0 || refused && (len(errs) != 1 || errs[0].Type != field.ErrorTypeTooMany) {
			t.Errorf("%d more: %.300v", more, errs.ToAggregate())
		}
		if len(validate(crd, crd)) > 0 {
			t.Errorf("%d more: an unchanged definition is checked", more)
		}
	}
}

// TestRulesWork checks that only so many rules of a definition are compiled, wherever they are.
func TestRulesWork(t *testing.T) {
	long := apiextensionsv1.ValidationRule{Rule: "self != '" + strings.Repeat("a", 90<<10) + "'"}
	leaf := func(n int) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(10)), XValidations: slices.Repeat(apiextensionsv1.ValidationRules{long}, n)}
	}
	for name, place := range map[string]func(apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps{
		"itself": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps { return s },
		"items": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{Type: "array", MaxItems: new(int64(1)), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &s}}
		},
		"values": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{Type: "object", MaxProperties: new(int64(1)), AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &s}}
		},
	} {
		for n, refused := range map[int]bool{2: false, 3: true} {
			crd := made(t)
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["x"] = place(leaf(n))
			errs := validate(crd, nil)
			if !refused && len(errs) > 0 || refused && (len(errs) != 1 || !strings.Contains(errs[0].Detail, "take too long to compile")) {
				t.Errorf("%s, %d rules: %.300v", name, n, errs.ToAggregate())
			}
			if n == 3 && len(validate(crd, crd)) > 0 {
				t.Errorf("%s: an unchanged definition is checked", name)
			}
		}
	}
}
