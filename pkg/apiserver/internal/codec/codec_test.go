package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

var configMaps = objects.Row(objects.Def[*corev1.ConfigMap]{
	Names:   objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"},
	New:     func() *corev1.ConfigMap { return new(corev1.ConfigMap) },
	NewList: func() runtime.Object { return new(corev1.ConfigMapList) },
})

func items(n int) ([]*cache.Item, *corev1.ConfigMapList) {
	list := &corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "<c>"},
		Items: []corev1.ConfigMap{},
	}
	var out []*cache.Item
	for i := range n {
		m := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i), Namespace: "n"}, Data: map[string]string{"k": string(bytes.Repeat([]byte("v"), 1<<i))}}
		list.Items = append(list.Items, m)
		out = append(out, cache.NewItem(objects.Key{Namespace: "n", Name: m.Name}, 7, &m))
	}
	return out, list
}

// A list that is joined from the encodings of its items equals the list encoded as a whole.
func TestListEqualsTypedEncoding(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 9} {
		its, list := items(n)
		k := Kind{Resource: &configMaps}
		got, err := k.List(its, list.ListMeta, JSON)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", string(joined(t, got))); diff != "" {
			t.Errorf("JSON of %d: -want +got\n%s", n, diff)
		}
		var buf bytes.Buffer
		if err := protobuf.NewSerializer(scheme, scheme).Encode(list, &buf); err != nil {
			t.Fatal(err)
		}
		if got, err = k.List(its, list.ListMeta, Protobuf); err != nil {
			t.Fatal(err)
		}
		if b := joined(t, got); !bytes.Equal(b, buf.Bytes()) {
			t.Errorf("protobuf of %d:\nwant %q\ngot  %q", n, buf.Bytes(), b)
		}
	}
}

func joined(t *testing.T, p Pieces) []byte {
	t.Helper()
	b, err := p.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An object is encoded once for all requests of a format. Encoding does not change it.
func TestEncodingsAreShared(t *testing.T) {
	its, _ := items(1)
	k := Kind{Resource: &configMaps}
	for _, f := range []Format{JSON, Protobuf} {
		a, err := k.Encode(its[0], f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := k.Encode(its[0], f)
		if err != nil || &a[0] != &b[0] {
			t.Errorf("%s is encoded twice (%v)", f, err)
		}
	}
	if obj, err := its[0].Object(); err != nil || obj.GetObjectKind().GroupVersionKind().Kind != "" {
		t.Errorf("the shared object was changed: %v", err)
	}
}

func TestProtobufEventEqualsTypedEncoding(t *testing.T) {
	object := bytes.Repeat([]byte("o"), 300)
	ev := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: object}}
	want, err := ev.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got := append(AppendEventHead(nil, watch.Added, len(object), Protobuf), object...)
	if !bytes.Equal(got[4:], want) || int(got[2])<<8|int(got[3]) != len(want) {
		t.Errorf("got %q, want %q behind its length", got, want)
	}
}

func TestNegotiate(t *testing.T) {
	table := metav1.SchemeGroupVersion.WithKind("Table")
	for _, c := range []struct {
		accept string
		offer  Offer
		want   Media
		code   int32
	}{
		{"", Offer{}, Media{}, 0},
		{"*/*", Offer{}, Media{}, 0},
		{"application/*", Offer{}, Media{}, 406},
		{"application/*", Offer{Unrouted: true}, Media{}, 0},
		{"application/yaml", Offer{}, Media{Format: YAML}, 0},
		{"application/vnd.kubernetes.protobuf,application/json", Offer{}, Media{Format: Protobuf}, 0},
		{"application/vnd.kubernetes.protobuf,application/json", Offer{NoProtobuf: true}, Media{}, 0},
		{"application/vnd.kubernetes.protobuf", Offer{NoProtobuf: true}, Media{}, 406},
		{"application/json;q=0.1,application/yaml;q=0.9", Offer{}, Media{Format: YAML}, 0},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Offer{}, Media{}, 0},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", Offer{Transform: Metadata}, Media{As: table}, 0},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", Offer{Transform: Metadata}, Media{}, 0},
		{"application/json;as=Table;v=v2;g=meta.k8s.io", Offer{Transform: Metadata}, Media{}, 406},
		{"application/json;charset=latin1", Offer{}, Media{}, 406},
		{"application/yaml", Offer{Stream: true}, Media{}, 406},
		{"application/yaml,*/*", Offer{Stream: true}, Media{}, 406},
		{"image/png", Offer{}, Media{}, 406},
		{"nonsense;;;", Offer{}, Media{}, 406},
	} {
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", c.accept)
		got, err := Negotiate(r, c.offer)
		if (err != nil) != (c.code != 0) || err == nil && got != c.want {
			t.Errorf("%q: got %+v, %v", c.accept, got, err)
		}
	}
}

// Decoding returns an object or an error for any body, and a protobuf body round-trips.
func FuzzDecode(f *testing.F) {
	its, _ := items(1)
	pb, err := Kind{Resource: &configMaps}.Encode(its[0], Protobuf)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pb, uint8(Protobuf))
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","a":"2"},"x":1}`), uint8(JSON))
	f.Add([]byte("data: {a: b}\nkind: Secret\n"), uint8(YAML))
	d := NewDecoder([]*objects.Resource{&configMaps})
	f.Fuzz(func(t *testing.T, data []byte, format uint8) {
		for _, validation := range []string{"Strict", "Warn", "Ignore"} {
			obj := new(corev1.ConfigMap)
			want := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
			_, err := Decode(Body{Format: Format(format % 3), Data: data, Validation: validation}, want, obj, d.Known)
			if err == nil && obj.GroupVersionKind() != want {
				t.Errorf("decoded as %s", obj.GroupVersionKind())
			}
		}
	})
}

// The kind of a body is checked before its content, in every format.
func TestBodyKindIsCheckedFirst(t *testing.T) {
	d := NewDecoder([]*objects.Resource{&configMaps})
	const secret = `Secret in version "v1" cannot be handled as a ConfigMap: no kind "Secret" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"`
	for body, want := range map[string]string{
		`{"kind":"ConfigMap","apiVersion":"v1"}`: "",
		`{}`:                                     "",
		`{"kind":"Secret","apiVersion":"v1","data":5}`:           secret,
		`{"data":5,"apiVersion":"v1","kind":"Secret"}`:           secret,
		`{"KIND":"Secret"}`:                                      secret,
		`{"kind":"ConfigMap","apiVersion":"v1","kind":"Secret"}`: secret,
		`{"kind":"ConfigMap","apiVersion":"v1","Kind":"Secret"}`: secret,
		`{"kind":"ConfigMap","apiVersion":"v2"}`:                 `ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"`,
		`{"kind":"ConfigMap","apiVersion":"v1","data":5}`:        `ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string`,
		`{"kind":5}`:                            `the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})`,
		`{"kind":"ConfigMap","apiVersion":"v1"`: `the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({"kind":"ConfigMap","apiVersio ...)`,
		`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"1","a":"2"},"x":1}`: `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.a", unknown field "x"`,
	} {
		for _, f := range []Format{JSON, YAML} {
			if f == YAML && (!json.Valid([]byte(body)) || bytes.Contains([]byte(body), []byte(`"Kind"`)) || want != "" && bytes.Contains([]byte(want), []byte("strict"))) {
				continue // its YAML form differs
			}
			obj := new(corev1.ConfigMap)
			_, err := Decode(Body{Format: f, Data: []byte(body), Validation: "Strict"}, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, obj, d.Known)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s %s:\ngot  %s\nwant %s", f, body, got, want)
			}
		}
	}
}

// Duplicate fields in YAML give a warning or an error. A body without duplicates is decoded once.
func TestYAMLDuplicateFields(t *testing.T) {
	const body = "kind: ConfigMap\napiVersion: v1\ndata:\n  a: b\n  a: c\n"
	want := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	for validation, complains := range map[string]bool{"Ignore": false, "Warn": true} {
		obj := new(corev1.ConfigMap)
		warnings, err := Decode(Body{Format: YAML, Data: []byte(body), Validation: validation}, want, obj, nil)
		if err != nil || (len(warnings) > 0) != complains || obj.Data["a"] != "c" {
			t.Errorf("%s: got %v, %q, %v", validation, obj.Data, warnings, err)
		}
	}
	if _, err := Decode(Body{Format: YAML, Data: []byte(body), Validation: "Strict"}, want, new(corev1.ConfigMap), nil); err == nil {
		t.Error("it is not refused")
	}
}

func BenchmarkDecode(b *testing.B) {
	its, _ := items(5)
	k := Kind{Resource: &configMaps}
	d := NewDecoder([]*objects.Resource{&configMaps})
	for _, f := range []Format{JSON, Protobuf} {
		data, err := k.Encode(its[4], f)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(Body{Format: f, Data: data}, k.GVK(), new(corev1.ConfigMap), d.Known); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
