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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// published is a kind that the API library has published an example of, with every field set, in each format.
type published struct {
	gvk      schema.GroupVersionKind
	make     func() runtime.Object
	examples map[Format][]byte
}

// examples returns the published examples of everything that is served.
func examples(t *testing.T) []published {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Skipf("where the API library is cannot be found out: %v", err)
	}
	var out []published
	add := func(gvk schema.GroupVersionKind, makes func() runtime.Object) {
		p := published{gvk: gvk, make: makes, examples: map[Format][]byte{}}
		group := gvk.Group
		if group == "" {
			group = "core"
		}
		base := filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", strings.Join([]string{group, gvk.Version, gvk.Kind}, "."))
		for f, suffix := range map[Format]string{JSON: ".json", YAML: ".yaml", Protobuf: ".pb"} {
			b, err := os.ReadFile(base + suffix)
			if err != nil {
				continue
			}
			if f == JSON {
				b = compact(t, b)
			}
			p.examples[f] = b
		}
		if len(p.examples) > 0 {
			out = append(out, p)
		}
	}
	for _, r := range builtin.Resources {
		for _, v := range r.Versions {
			add(schema.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: r.Names.Kind}, v.New)
		}
	}
	for _, s := range subresources {
		if s.Kind != nil && s.Kind.New != nil {
			add(s.Kind.Names.GVK(), func() runtime.Object { return s.Kind.New() })
		}
	}
	return out
}

// compact returns JSON as it travels. Raw extensions keep the spaces that they came with.
func compact(t *testing.T, b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

// Every published example of a kind that is served is read and written again as it was, in each format, and from each
// format into each.
func TestPublishedExamples(t *testing.T) {
	all := examples(t)
	d := NewDecoder(objects.Each(builtin.Resources))
	for _, p := range all {
		t.Run(p.gvk.GroupVersion().String()+" "+p.gvk.Kind, func(t *testing.T) {
			for from, data := range p.examples {
				obj := p.make()
				warnings, err := Decode(Body{Format: from, Data: data, Validation: validateStrict}, p.gvk, obj, d.Known)
				if err != nil || len(warnings) > 0 {
					t.Fatalf("read %s: %v %v", from, err, warnings)
				}
				for to, want := range p.examples {
					got, err := Object(obj, p.gvk, Media{Format: to})
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
	if len(all) < len(builtin.Resources)/2 {
		t.Errorf("examples of %d kinds only, with %d resources", len(all), len(builtin.Resources))
	}
}
