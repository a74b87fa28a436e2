package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

const oldManifest = `
metadata: {name: web, namespace: default}
spec:
  backend: {serviceName: fallback, servicePort: 80}
  rules:
  - host: example.com
    http:
      paths:
      - path: /a
        backend: {serviceName: a, servicePort: http}
      - path: /b
        pathType: Prefix
        backend: {resource: {kind: Bucket, name: b}}
  - host: nothing.example.com
`

func TestOldIngresses(t *testing.T) {
	farewells := map[string]string{
		"networking.k8s.io/v1beta1": "networking.k8s.io/v1beta1 Ingress is deprecated in v1.19+, unavailable in v1.22+; use networking.k8s.io/v1 Ingress",
		"extensions/v1beta1":        "extensions/v1beta1 Ingress is deprecated in v1.14+, unavailable in v1.22+; use networking.k8s.io/v1 Ingress",
	}
	if len(oldIngresses) != len(farewells) {
		t.Fatalf("got %d versions", len(oldIngresses))
	}
	for _, v := range oldIngresses {
		gv := v.Group + "/" + v.Version
		t.Run(gv, func(t *testing.T) {
			if v.Deprecated != farewells[gv] {
				t.Errorf("got %q", v.Deprecated)
			}
			in := v.New()
			if err := yaml.UnmarshalStrict([]byte(oldManifest), in); err != nil {
				t.Fatal(err)
			}
			v.Default(in)
			i, err := v.To(in)
			if err != nil {
				t.Fatal(err)
			}
			if errs := validateIngress(i, nil); len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if b := i.Spec.DefaultBackend.Service; b.Name != "fallback" || b.Port.Number != 80 || b.Port.Name != "" {
				t.Errorf("got default backend %v", b)
			}
			paths := i.Spec.Rules[0].HTTP.Paths
			if b := paths[0].Backend.Service; b.Name != "a" || b.Port.Name != "http" || *paths[0].PathType != networkingv1.PathTypeImplementationSpecific {
				t.Errorf("got %v", paths[0])
			}
			if b := paths[1].Backend; b.Service != nil || b.Resource.Name != "b" || *paths[1].PathType != networkingv1.PathTypePrefix {
				t.Errorf("got %v", paths[1])
			}
		})
	}
}
