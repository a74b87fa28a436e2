package codec

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// The values of fieldValidation.
const (
	validateIgnore = metav1.FieldValidationIgnore
	validateStrict = metav1.FieldValidationStrict
)

// Body is the body of a request.
type Body struct {
	Format     Format
	Data       []byte
	Validation string // Ignore, Warn or Strict; "" is Warn
}

// Known returns the name of the Go type of a served kind; "" if the kind is not served.
type Known func(schema.GroupVersionKind) string

// Decode decodes a body of kind want into obj, and returns warnings about its fields. An apiVersion and a kind that the body
// omits default to want's; others are refused.
func Decode(b Body, want schema.GroupVersionKind, obj runtime.Object, known Known) (warnings []string, err error) {
	r, err := b.read(want, obj, nil)
	if err != nil {
		return nil, err
	}
	err = r.err
	if r.err == nil || b.Format != Protobuf { // an undecodable protobuf body has no kind to check
		err = cmp.Or(checkKind(r.actual, want, known), err)
	}
	if err == nil {
		err = r.strictError(b)
	}
	if err != nil {
		return nil, cannotHandle(r.actual, want.Kind, err)
	}
	if r.actual.GroupVersion() != want.GroupVersion() {
		return nil, wrongVersion(r.actual.GroupVersion(), want.GroupVersion())
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return r.warnings(), nil
}

// reading is the result of reading a body.
type reading struct {
	declared schema.GroupVersionKind // the kind in the body
	actual   schema.GroupVersionKind // declared, with the expected kind where the body omits it
	strict   []error                 // unknown and duplicate fields
	err      error                   // why the body does not decode
}

// read decodes the body into obj, of kind want and version v. It returns an error if the body has no readable kind; other
// errors are in the reading.
func (b Body) read(want schema.GroupVersionKind, obj runtime.Object, v *objects.VersionOf) (r reading, err error) {
	data, twice, err := b.json()
	if apierrors.IsRequestEntityTooLargeError(err) {
		return r, err
	}
	if err != nil {
		return r, unrecognized(b.Data, want.Kind, err)
	}
	if b.Format == Protobuf {
		if r.actual, r.err = readEnvelope(data, obj); errors.Is(r.err, errNoEnvelope) {
			return r, unrecognized(b.Data, want.Kind, r.err)
		}
		r.actual = fill(r.actual, want)
		return r, nil
	}
	strictly := b.Validation != validateIgnore
	if r.strict, r.err = v.Unmarshal(data, obj, strictly); twice != nil {
		r.strict = append([]error{twice}, r.strict...)
	}
	r.declared = obj.GetObjectKind().GroupVersionKind()
	r.actual = r.declared
	if strictly && r.actual == want && r.err == nil && len(r.strict) == 0 {
		return r, nil
	}
	// Decode the kind separately: the body may have it in capitals, or as a duplicate field.
	if r.declared, err = interpret(data); err != nil {
		return r, unrecognized(b.Data, want.Kind, err)
	}
	r.actual = fill(r.declared, want)
	return r, nil
}

// strictError returns the error about unknown and duplicate fields, if the field validation is strict.
func (r reading) strictError(b Body) error {
	if b.Validation != validateStrict || len(r.strict) == 0 {
		return nil
	}
	return runtime.NewStrictDecodingError(r.strict)
}

func (r reading) warnings() []string {
	var out []string
	for _, e := range r.strict {
		out = append(out, e.Error())
	}
	return out
}

func wrongVersion(actual, want schema.GroupVersion) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", actual, want))
}

// json returns the body as JSON, and the error about duplicate fields in YAML, which its JSON form no longer has. It returns a
// protobuf body unchanged, and JSON that is called YAML, too, because reading it as YAML takes ten times as long. YAML with too many
// nodes is refused before it is converted, and converted YAML that would take too much memory before it is decoded.
func (b Body) json() (data []byte, twice, err error) {
	if b.Format != YAML || verbs.PlainJSON(b.Data) && hasUniqueKeys(b.Data) {
		return b.Data, nil, nil
	}
	if err = bodies.CheckYAML(b.Data); err != nil {
		return nil, nil, err
	}
	if data, twice, err = b.convert(); err == nil {
		err = bodies.CheckWeight(data)
	}
	return data, twice, err
}

// hasUniqueKeys reports whether data is a JSON object in which no key is twice in an object.
func hasUniqueKeys(data []byte) bool {
	strict, err := kjson.UnmarshalStrict(data, &map[string]any{})
	return err == nil && len(strict) == 0
}

// convert is json for a body in YAML.
func (b Body) convert() (data []byte, twice, err error) {
	if b.Validation != validateIgnore {
		if data, twice = yaml.YAMLToJSONStrict(b.Data); twice == nil {
			return data, nil, nil
		}
		if duplicates := new(goyaml.TypeError); !errors.As(twice, &duplicates) {
			return nil, nil, twice // the body is no YAML
		}
	}
	data, err = yaml.YAMLToJSON(b.Data)
	return data, twice, err
}

// interpret returns the kind in a JSON body.
func interpret(data []byte) (schema.GroupVersionKind, error) {
	var tm struct { // unnamed, because Kubernetes' messages contain no type name here
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(data, &tm); err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(tm.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return gv.WithKind(tm.Kind), nil
}

// errNoEnvelope is the error of a body that is no protobuf message of Kubernetes.
var errNoEnvelope = fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", protobufMagic)

// openEnvelope returns the kind and the content of a protobuf message of Kubernetes.
func openEnvelope(data []byte) (gvk schema.GroupVersionKind, content []byte, err error) {
	rest, ok := bytes.CutPrefix(data, protobufMagic)
	if !ok {
		return gvk, nil, errNoEnvelope
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(rest); err != nil {
		return gvk, nil, err
	}
	return schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind), unknown.Raw, nil
}

// readEnvelope decodes a protobuf message of Kubernetes into obj and returns its kind.
func readEnvelope(data []byte, obj runtime.Object) (schema.GroupVersionKind, error) {
	gvk, content, err := openEnvelope(data)
	if err != nil {
		return gvk, err
	}
	m, ok := obj.(interface{ Unmarshal([]byte) error })
	if !ok {
		return gvk, ErrNoProtobuf
	}
	if err := checkDecoded(content, reflect.TypeOf(obj).Elem()); err != nil {
		return gvk, err
	}
	return gvk, m.Unmarshal(content)
}

func fill(gvk, defaults schema.GroupVersionKind) schema.GroupVersionKind {
	if gvk.Kind == "" {
		gvk.Kind = defaults.Kind
	}
	if gvk.Version == "" && gvk.Group == "" {
		gvk.Group, gvk.Version = defaults.Group, defaults.Version
	}
	return gvk
}

// checkKind refuses a body of another kind. A body in another version of the kind passes: Decode refuses it later with a more
// specific message.
func checkKind(actual, want schema.GroupVersionKind, known Known) error {
	if actual == want {
		return nil
	}
	name := known(actual)
	if name == "" {
		return fmt.Errorf("no kind %q is registered for version %q in scheme %q", actual.Kind, actual.GroupVersion(), "pkg/api/legacyscheme/scheme.go:30")
	}
	if actual.Kind == want.Kind {
		return nil
	}
	return fmt.Errorf("converting (%s) to (%s.%s): unknown conversion", name, internalPackage(want.Group), want.Kind)
}

// TypeName returns the name of obj's Go type in error messages: "v1.Secret".
func TypeName(obj runtime.Object) string { return reflect.TypeOf(obj).Elem().String() }

// internalPackage is the package of a group's internal types in Kubernetes' messages.
func internalPackage(group string) string {
	if group == "" {
		return "core"
	}
	word, _, _ := strings.Cut(group, ".")
	return word
}

func cannotHandle(actual schema.GroupVersionKind, kind string, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", actual.Kind, actual.Version, kind, err))
}

func unrecognized(data []byte, kind string, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", kind, err, summary(data)))
}

// summary formats the beginning of a body for an error message: as text if it looks like JSON, else in hex.
func summary(data []byte) string {
	const most = 30
	show := func(b []byte) string { return hex.EncodeToString(b) }
	if len(data) == 0 {
		return "<empty>"
	}
	if data[0] == '{' {
		show = func(b []byte) string { return string(b) }
	}
	if len(data) > most {
		return show(data[:most]) + " ..."
	}
	return show(data)
}

// DecodeOptions decodes a body of DeleteOptions, of any version.
func DecodeOptions(b Body, opts *metav1.DeleteOptions) error {
	actual, err := b.options(opts)
	if apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	const kind = "DeleteOptions"
	switch {
	case slices.Contains(unversioned, actual.Kind):
		err = fmt.Errorf("converting (v1.%s) to (v1.%s): unknown conversion", actual.Kind, kind)
	case actual.Kind != "" && actual.Kind != kind:
		err = fmt.Errorf("no kind %q is registered for version %q in scheme %q", actual.Kind, actual.GroupVersion(), "pkg/apis/meta/internalversion/scheme/register.go:27")
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// options decodes the body into opts and returns its kind.
func (b Body) options(opts *metav1.DeleteOptions) (actual schema.GroupVersionKind, err error) {
	if b.Format == Protobuf {
		return readEnvelope(b.Data, opts)
	}
	data, _, err := b.json()
	if err != nil {
		return actual, err
	}
	if actual, err = interpret(data); err != nil {
		return actual, err
	}
	return actual, kjson.UnmarshalCaseSensitivePreserveInts(data, opts)
}

// unversioned lists the kinds that every version has.
var unversioned = []string{"Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"}

// hasKind reports whether the kind in the body is gvk.
func (b Body) hasKind(gvk schema.GroupVersionKind) bool {
	if b.Format == Protobuf {
		actual, _, err := openEnvelope(b.Data)
		return err == nil && actual == gvk
	}
	data, _, err := b.json()
	if err != nil {
		return false
	}
	if kind, ok := leadingKind(data); ok {
		return kind == gvk.Kind // what decodes the body refuses another apiVersion, and another kind that follows
	}
	actual, err := interpret(data)
	return err == nil && actual == gvk
}

// leadingKind returns the kind of a body that begins with it, as that of a component does. To find the kind of another one takes a tenth of
// the time of its decoding.
func leadingKind(data []byte) (kind string, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"kind":"`))
	if !ok {
		return "", false
	}
	end := bytes.IndexAny(rest[:min(len(rest), maxKind)], "\"\\")
	if end < 0 || rest[end] != '"' {
		return "", false
	}
	return string(rest[:end]), true
}

// maxKind bounds the kinds that leadingKind finds.
const maxKind = 64
