package stage

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// subject is an object to which Stages are matched, as the JSON that jq, CEL and templates read. It is used by one goroutine.
type subject struct {
	object objects.Object
	at     time.Time // when it is matched
	kind   string
	json   map[string]any // made by value
}

func subjectOf(obj objects.Object, at time.Time) *subject {
	kind := "Pod"
	if _, ok := obj.(*corev1.Node); ok {
		kind = "Node"
	}
	return &subject{object: obj, at: at, kind: kind}
}

// now returns the time as jq's function now: in seconds since 1970.
func (s *subject) now() float64 { return float64(s.at.UnixMicro()) / 1e6 }

// value returns the object's JSON. It must not be changed.
func (s *subject) value() (map[string]any, error) {
	if s.json != nil {
		return s.json, nil
	}
	b, err := s.encode()
	if err != nil {
		return nil, err
	}
	return s.json, json.Unmarshal(b, &s.json)
}

// encode returns the object as JSON with its kind, which objects of caches may lack.
func (s *subject) encode() ([]byte, error) {
	typed := metav1.TypeMeta{APIVersion: "v1", Kind: s.kind}
	switch obj := s.object.(type) {
	case *corev1.Pod:
		shallow := *obj
		shallow.TypeMeta = typed
		return json.Marshal(&shallow)
	case *corev1.Node:
		shallow := *obj
		shallow.TypeMeta = typed
		return json.Marshal(&shallow)
	}
	return json.Marshal(s.object)
}

// staged reports whether a Stage has changed the object.
func (s *subject) staged() bool {
	return slices.ContainsFunc(s.object.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == kwok.Manager })
}
