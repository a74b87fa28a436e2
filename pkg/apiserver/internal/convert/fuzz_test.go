package convert

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzResponse decodes arbitrary responses of a webhook. An accepted object has the identity of the sent one.
func FuzzResponse(f *testing.F) {
	f.Add(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"u","result":{"status":"Success"},"convertedObjects":[` +
		`{"apiVersion":"example.com/v2","kind":"Toy","metadata":{"name":"a","namespace":"n","uid":"x","labels":{"a":"b"},"annotations":{"k":"v"}},"spec":{"x":1}}]}}`)
	f.Add(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"u","result":{"status":"Failure","message":"no"}}}`)
	f.Add(`{"response":{"uid":"u","result":{"status":"Success"},"convertedObjects":[null,[],7,{"metadata":[]},{"items":[]}]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		sent := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1.String(), "kind": "Toy",
			"metadata": map[string]any{"name": "a", "namespace": "n", "uid": "x", "labels": map[string]any{"a": "b"}}}}
		for _, version := range []string{"v1", "v1beta1"} {
			review, err := newReview([]string{version}, "u", []*unstructured.Unstructured{sent}, v2)
			if err != nil {
				t.Fatal(err)
			}
			objs, err := review.read([]byte(body))
			if err != nil {
				continue
			}
			for _, raw := range objs {
				got, flawed := checkConverted(sent, raw, v2)
				if flawed != nil {
					_ = flawed.in(sent.GroupVersionKind(), 0, true)
					continue
				}
				if err := same(sent, got); err != nil || got.GetAPIVersion() != v2.String() {
					t.Errorf("%v: took %v", err, got)
				}
				if _, err := json.Marshal(got); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
