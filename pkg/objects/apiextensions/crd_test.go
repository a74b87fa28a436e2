package apiextensions

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

// plain is a definition as users write them.
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

// with returns plain with some of its text replaced, as the server has it before its checks.
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

// made returns a definition after it was created.
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
