package codec

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// formats maps the suffix of an example's file name to its format.
var formats = map[Format]string{JSON: ".json", YAML: ".yaml", Protobuf: ".pb"}

// published is the published example of a kind in the API library, with every field set, in each format.
type published struct {
	gvk      schema.GroupVersionKind // from its file name
	declared schema.GroupVersionKind // from the example itself: watch events have no kind
	examples map[Format][]byte
}

// examples returns all published examples.
func examples(t *testing.T) []published {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Skipf("where the API library is cannot be found out: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the API library has no examples: %v", err)
	}
	var out []published
	for _, file := range files {
		base := strings.TrimSuffix(file, formats[JSON])
		p := published{gvk: kindIn(filepath.Base(base)), examples: map[Format][]byte{}}
		for f, suffix := range formats {
			if p.examples[f], err = os.ReadFile(base + suffix); err != nil {
				t.Fatal(err)
			}
		}
		p.examples[JSON] = compact(t, p.examples[JSON])
		if p.declared, err = interpret(p.examples[JSON]); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// kindIn reads the name of an example's files: apps.v1.Deployment.
func kindIn(name string) schema.GroupVersionKind {
	parts := strings.Split(name, ".")
	last := len(parts) - 1
	gvk := schema.GroupVersionKind{Group: strings.Join(parts[:last-1], "."), Version: parts[last-1], Kind: parts[last]}
	if gvk.Group == "core" {
		gvk.Group = ""
	}
	return gvk
}

// compact returns JSON in compact form. Raw extensions keep their spaces.
func compact(t *testing.T, b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

// makers returns the constructor for each kind: the row's if the kind is served, otherwise the library's.
func makers(t *testing.T) func(schema.GroupVersionKind) runtime.Object {
	library := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, admissionv1.AddToScheme, admissionv1beta1.AddToScheme, apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme,
		imagepolicyv1alpha1.AddToScheme,
	} {
		if err := add(library); err != nil {
			t.Fatal(err)
		}
	}
	rows := map[schema.GroupVersionKind]func() runtime.Object{}
	for _, r := range builtin.Resources() {
		for _, v := range r.Versions {
			rows[schema.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: r.Names.Kind}] = v.New
		}
	}
	for _, s := range subresources() {
		if s.Kind != nil && s.Kind.New != nil {
			rows[s.Kind.Names.GVK()] = func() runtime.Object { return s.Kind.New() }
		}
	}
	return func(gvk schema.GroupVersionKind) runtime.Object {
		if make := rows[gvk]; make != nil {
			return make()
		}
		obj, err := library.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
}

// Every published example, of served and of other kinds, is decoded and encoded without a change, in each format, and
// from each format to every other.
func TestPublishedExamples(t *testing.T) {
	make, all := makers(t), examples(t)
	d := NewDecoder(objects.Each(builtin.Resources()))
	for _, p := range all {
		t.Run(p.gvk.GroupVersion().String()+" "+p.gvk.Kind, func(t *testing.T) {
			for from, data := range p.examples {
				obj := make(p.gvk)
				warnings, err := Decode(Body{Format: from, Data: data, Validation: validateStrict}, p.declared, obj, d.Known)
				if err != nil || len(warnings) > 0 {
					t.Fatalf("read %s: %v %v", from, err, warnings)
				}
				for to, want := range p.examples {
					got, err := Object(obj, p.declared, Media{Format: to})
					if err != nil {
						t.Fatalf("write %s: %v", to, err)
					}
					if !bytes.Equal(got, want) {
						t.Errorf("%s written as %s: -want +got\n%s", from, to, cmp.Diff(string(want), string(got)))
					}
				}
			}
		})
	}
}

// unpublished lists groups whose types are in other libraries, without published examples.
var unpublished = map[string]bool{"apiextensions.k8s.io": true, "apiregistration.k8s.io": true, "minikctl.dev": true}

// Every served kind has an example in each of its versions.
func TestKindsHaveExamples(t *testing.T) {
	have := map[schema.GroupVersionKind]bool{}
	for _, p := range examples(t) {
		have[p.gvk] = true
	}
	for _, r := range builtin.Resources() {
		for _, v := range r.Versions {
			gvk := schema.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: r.Names.Kind}
			if !have[gvk] && !unpublished[v.Group] {
				t.Errorf("no example of %s", gvk)
			}
		}
	}
}
