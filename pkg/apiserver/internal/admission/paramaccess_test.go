package admission

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// configMapReader is an authorizer that allows reading ConfigMaps only.
type configMapReader struct{}

func (configMapReader) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	if a.Verb == "get" && a.GVR.GroupResource() == (schema.GroupResource{Resource: "configmaps"}) {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, "", nil
}

func TestParamAccess(t *testing.T) {
	of := func(kind string) *admissionv1.ValidatingAdmissionPolicy {
		p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		if kind != "" {
			p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: kind}
		}
		return p
	}
	plugin := paramAccess{[]stage.Authorizer{configMapReader{}}, func(k schema.GroupVersionKind) (*objects.Resource, *objects.VersionOf) {
		return map[string]*objects.Resource{
			"ConfigMap": {Names: objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"}},
			"Secret":    {Names: objects.Names{Version: "v1", Kind: "Secret", Plural: "secrets"}},
		}[k.Kind], nil
	}}
	const secrets = ` "p" is invalid: spec.paramKind: Forbidden: user &{alice  [] map[]} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`
	for name, c := range map[string]struct {
		now, old *admissionv1.ValidatingAdmissionPolicy
		want     string
	}{
		"none":          {of(""), nil, ""},
		"readable":      {of("ConfigMap"), nil, ""},
		"secret":        {of("Secret"), nil, secrets},
		"as it was":     {of("Secret"), of("Secret"), ""},
		"made a secret": {of("Secret"), of("ConfigMap"), secrets},
	} {
		a := create(schema.GroupResource{Group: registration, Resource: "validatingadmissionpolicies"}, c.now)
		a.User = &user.DefaultInfo{Name: "alice"}
		if c.old != nil {
			a.Operation, a.Old = stage.Update, c.old
		}
		a.Resource.Names.Group = ""
		err := plugin.Validate(t.Context(), a)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: got  %v\nwant %s", name, err, c.want)
		}
	}
}
