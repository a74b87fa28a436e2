package apiserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// everyKind has the libraries' Go types of every served kind. Its codecs are those of client-go.
var (
	everyKind       = everyType()
	everyKindCodecs = serializer.NewCodecFactory(everyKind)
)

func everyType() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// encodings are the encodings of client-go.
var encodings = map[string]func(runtime.Object) ([]byte, error){
	"application/json": func(obj runtime.Object) ([]byte, error) { return json.Marshal(obj) },
	"application/yaml": func(obj runtime.Object) ([]byte, error) { return yaml.Marshal(obj) },
	"application/vnd.kubernetes.protobuf": func(obj runtime.Object) ([]byte, error) {
		var b bytes.Buffer
		err := protobuf.NewSerializer(everyKind, everyKind).Encode(obj, &b)
		return b.Bytes(), err
	},
}

// testObject is an object of testdata, and its path.
type testObject struct {
	name   string
	object runtime.Object
	path   string // of its collection
}

// specimens reads testdata/objects.
func specimens(t *testing.T) []testObject {
	files, err := filepath.Glob("testdata/objects/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []testObject
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(b), "\n---\n") {
			obj, gvk, err := everyKindCodecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, text)
			}
			row := rowOf(t, *gvk)
			meta := obj.(objects.Object)
			path := "/apis/" + gvk.Group
			if gvk.Group == "" {
				path = "/api"
			}
			path += "/" + gvk.Version
			if !row.Names.Cluster {
				meta.SetNamespace("trip")
				path += "/namespaces/trip"
			}
			obj.GetObjectKind().SetGroupVersionKind(*gvk)
			out = append(out, testObject{gvk.Version + "/" + gvk.Kind + "/" + meta.GetName(), obj, path + "/" + row.Names.Plural})
		}
	}
	return out
}

// notStored lists the kinds without stored objects.
var notStored = map[string]string{
	"Binding":                  "a create binds a pod",
	"ComponentStatus":          "it is computed on each read",
	"LocalSubjectAccessReview": "a create returns the result",
	"SelfSubjectAccessReview":  "a create returns the result",
	"SelfSubjectReview":        "a create returns the result",
	"SelfSubjectRulesReview":   "a create returns the result",
	"SubjectAccessReview":      "a create returns the result",
	"TokenReview":              "a create returns the result",
}

// kindsWithout returns the served Kubernetes kinds without an object in testdata.
func kindsWithout(all []testObject) map[string]bool {
	without := map[string]bool{}
	for i := range builtin.Resources() {
		if n := builtin.Resources()[i].Names; n.Group != "minikctl.dev" {
			without[n.Kind] = true
		}
	}
	for _, s := range all {
		delete(without, s.object.GetObjectKind().GroupVersionKind().Kind)
	}
	return without
}

func rowOf(t *testing.T, gvk schema.GroupVersionKind) *objects.Resource {
	for i := range builtin.Resources() {
		r := &builtin.Resources()[i]
		for _, v := range r.Versions {
			if r.Names.Kind == gvk.Kind && v.Group == gvk.Group && v.Version == gvk.Version {
				return r
			}
		}
	}
	t.Fatalf("%s is not served", gvk)
	return nil
}

// TestRoundTrip sends objects in each encoding. The response has all that was sent and is the same in every encoding,
// and sending it back changes nothing.
func TestRoundTrip(t *testing.T) {
	all := specimens(t)
	if t.Logf("%d objects", len(all)); len(all) < 60 {
		t.Errorf("only %d objects", len(all))
	}
	without := kindsWithout(all)
	for kind, why := range notStored {
		if !without[kind] {
			t.Errorf("%s: %s, and yet there is one", kind, why)
		}
		delete(without, kind)
	}
	for kind := range without {
		t.Errorf("there is no object of kind %s", kind)
	}
	made := map[string]map[string]any{} // created objects, by encoding and name
	for media, encode := range encodings {
		made[media] = map[string]any{}
		c := newSpeaker(t)
		for _, s := range all {
			t.Run(strings.TrimPrefix(media, "application/")+"/"+s.name, func(t *testing.T) {
				made[media][s.name] = c.roundTrip(t, s, media, encode)
			})
		}
	}
	for media, objs := range made {
		if diff := cmp.Diff(made["application/json"], objs); diff != "" {
			t.Errorf("what %s makes differs from what JSON does: -want +got\n%s", media, diff)
		}
	}
}

// encodingClient is a client of one encoding, with its own server.
type encodingClient struct {
	client *http.Client
	url    string
}

func newSpeaker(t *testing.T) encodingClient {
	e := apiservertest.New(t)
	client, err := rest.HTTPClientFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	c := encodingClient{client, e.URL}
	c.send(t, "POST", "/api/v1/namespaces", "application/json", "application/json", []byte(`{"metadata":{"name":"trip"}}`))
	c.send(t, "POST", "/api/v1/namespaces/trip/serviceaccounts", "application/json", "application/json", []byte(`{"metadata":{"name":"default"}}`))
	return c
}

// roundTrip creates and updates an object and returns the part of the response that is the same on every server.
func (c encodingClient) roundTrip(t *testing.T, s testObject, media string, encode func(runtime.Object) ([]byte, error)) any {
	body, err := encode(s.object)
	if err != nil {
		t.Fatal(err)
	}
	created := c.send(t, "POST", s.path, media, media, body)
	if path, ok := holds(generic(t, created), generic(t, s.object)); !ok {
		t.Errorf("%s differs from the request", path)
	}
	meta := created.(metav1.Object)
	path := s.path + "/" + meta.GetName()
	if hasServerStatus(created) {
		eventually(t, "the server sets the conditions", func() bool {
			created = c.send(t, "GET", path, media, media, nil)
			return conditions(created) > 0
		})
	}
	for accept := range encodings {
		if got := c.send(t, "GET", path, media, accept, nil); !reflect.DeepEqual(got, created) {
			t.Errorf("read as %s: -created +got\n%s", accept, cmp.Diff(created, got))
		}
	}
	if body, err = encode(created); err != nil {
		t.Fatal(err)
	}
	if again := c.send(t, "PUT", path, media, media, body); !reflect.DeepEqual(again, created) {
		t.Errorf("sent back: -created +got\n%s", cmp.Diff(created, again))
	}
	req, err := http.NewRequestWithContext(t.Context(), "DELETE", c.url+path+"?gracePeriodSeconds=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return mask(generic(t, created))
}

// hasServerStatus reports whether the server sets the status of an object's kind.
func hasServerStatus(obj runtime.Object) bool { return conditions(obj) >= 0 }

// conditions returns the number of conditions that the server has set on an object, -1 for kinds that it does not
// reconcile.
func conditions(obj runtime.Object) int {
	switch obj := obj.(type) {
	case *flowcontrolv1.FlowSchema:
		return len(obj.Status.Conditions)
	case *apiextensionsv1.CustomResourceDefinition:
		return len(obj.Status.Conditions)
	case *apiregistrationv1.APIService:
		return len(obj.Status.Conditions)
	}
	return -1
}

// send sends a request and reads the response.
func (c encodingClient) send(t *testing.T, method, path, content, accept string, body []byte) runtime.Object {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", content)
	req.Header.Set("Accept", accept)
	resp, err := c.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != accept || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s, %s: %s", method, path, resp.Status, got, b)
	}
	obj, gvk, err := everyKindCodecs.UniversalDeserializer().Decode(b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	if set, ok := obj.(*appsv1.StatefulSet); ok {
		for i := range set.Spec.VolumeClaimTemplates { // protobuf drops the kind of the claims
			set.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
		}
	}
	return obj
}

// generic returns an object as decoded JSON.
func generic(t *testing.T, obj runtime.Object) any {
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// holds reports whether got has everything in want. If not, it returns the first path that differs. Lists may be longer,
// since the server adds elements.
func holds(got, want any) (path string, ok bool) {
	switch want := want.(type) {
	case nil:
		return "", true
	case map[string]any:
		m, _ := got.(map[string]any)
		for key, value := range want {
			if empty, isMap := value.(map[string]any); isMap && len(empty) == 0 && m[key] == nil {
				continue
			}
			if path, ok := holds(m[key], value); !ok {
				return "." + key + path, false
			}
		}
		return "", true
	case []any:
		list, _ := got.([]any)
		if len(list) < len(want) {
			return "", false
		}
		for i, value := range want {
			if path, ok := holds(list[i], value); !ok {
				return "[]" + path, false
			}
		}
		return "", true
	}
	return "", got == want
}
