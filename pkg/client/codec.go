package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// codec encodes and decodes bodies: kinds with a protobuf form as protobuf, the others as JSON, and custom resources as
// unstructured JSON. It accepts minikctl's kinds as JSON only.
type codec struct {
	scheme   *runtime.Scheme
	protobuf *protobuf.Serializer
	json     *serializerjson.Serializer

	guess sync.Once
	kinds map[schema.GroupVersionResource]schema.GroupVersionKind
}

// newCodec is called for the first HTTP client, not at init: filling the scheme takes milliseconds.
var newCodec = sync.OnceValues(func() (*codec, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("fill the scheme: %w", err)
		}
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddKnownTypes(minikctl.GroupVersion, &minikctl.Trace{}, &minikctl.TraceList{}, &minikctl.Decision{}, &minikctl.DecisionList{},
		&minikctl.CorruptObject{}, &minikctl.CorruptObjectList{}, &minikctl.BindingBatch{}, &minikctl.BindingBatchList{})
	return &codec{
		scheme: s, protobuf: protobuf.NewSerializer(s, s),
		json: serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, s, s, serializerjson.SerializerOptions{}),
	}, nil
})

// optionsVersion is the version of the options kinds (DeleteOptions and so on) in groups that the scheme does not have.
var optionsVersion = schema.GroupVersion{Version: "v1"}

// accept returns the Accept header for a resource.
func (c *codec) accept(resource schema.GroupVersionResource) string {
	if c.supportsProtobuf(resource.GroupVersion()) {
		return typeProtobuf + "," + typeJSON
	}
	return typeJSON
}

func (c *codec) supportsProtobuf(gv schema.GroupVersion) bool {
	return gv != minikctl.GroupVersion && c.scheme.IsVersionRegistered(gv)
}

// kindOf returns the kind of a resource's objects; ok is false for custom ones.
func (c *codec) kindOf(resource schema.GroupVersionResource) (kind schema.GroupVersionKind, ok bool) {
	c.guess.Do(func() {
		c.kinds = map[schema.GroupVersionResource]schema.GroupVersionKind{}
		for kind := range c.scheme.AllKnownTypes() {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			c.kinds[plural] = kind
		}
	})
	kind, ok = c.kinds[resource]
	return kind, ok
}

// encode returns obj as a body and the body's content type. It sets obj's apiVersion and kind.
func (c *codec) encode(obj runtime.Object, gv schema.GroupVersion) (contentType string, body []byte, err error) {
	if _, ok := obj.(interface{ Marshal() ([]byte, error) }); !ok {
		return c.encodeJSON(obj, gv)
	}
	if err := c.setKind(obj, gv); err != nil {
		return "", nil, err
	}
	var buf bytes.Buffer
	if err := c.protobuf.Encode(obj, &buf); err != nil {
		return "", nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return typeProtobuf, buf.Bytes(), nil
}

// encodeJSON is encode for a body that is JSON.
func (c *codec) encodeJSON(obj runtime.Object, gv schema.GroupVersion) (contentType string, body []byte, err error) {
	if err := c.setKind(obj, gv); err != nil {
		return "", nil, err
	}
	body, err = json.Marshal(obj)
	return typeJSON, body, err
}

// setKind sets obj's apiVersion and kind, unless it is unstructured.
func (c *codec) setKind(obj runtime.Object, gv schema.GroupVersion) error {
	if _, ok := obj.(runtime.Unstructured); ok {
		return nil
	}
	kinds, _, err := c.scheme.ObjectKinds(obj)
	if err != nil {
		return fmt.Errorf("encode %T: %w", obj, err)
	}
	kind := kinds[0]
	for _, k := range kinds {
		switch k.GroupVersion() {
		case gv:
			kind = k
		case optionsVersion:
			if kind.GroupVersion() != gv {
				kind = k // a group that the scheme does not have
			}
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// decode returns the object of a body.
func (c *codec) decode(contentType string, body []byte) (runtime.Object, error) {
	if isProtobuf(contentType) {
		obj, _, err := c.protobuf.Decode(body, nil, nil)
		return obj, err
	}
	obj, _, err := c.json.Decode(body, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		obj, _, err = unstructured.UnstructuredJSONScheme.Decode(body, nil, nil)
	}
	return obj, err
}

func isProtobuf(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.HasPrefix(media, typeProtobuf)
}

// frames reads the events of a watch from its body. Their objects are still encoded.
func frames(contentType string, body io.Reader) func() (metav1.WatchEvent, error) {
	if !isProtobuf(contentType) {
		dec := json.NewDecoder(body)
		return func() (ev metav1.WatchEvent, err error) {
			err = dec.Decode(&ev)
			return ev, err
		}
	}
	return func() (ev metav1.WatchEvent, err error) {
		var size [4]byte
		if _, err := io.ReadFull(body, size[:]); err != nil {
			return ev, err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxFrame {
			return ev, fmt.Errorf("watch event of %d bytes", n)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(body, frame); err != nil {
			return ev, fmt.Errorf("watch event cut off: %w", io.ErrUnexpectedEOF)
		}
		return ev, ev.Unmarshal(frame)
	}
}

// maxFrame bounds the size of one watch event, as in client-go.
const maxFrame = 16 << 20
