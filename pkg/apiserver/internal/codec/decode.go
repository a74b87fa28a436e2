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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
)

// The ways of field validation.
const (
	validateIgnore = metav1.FieldValidationIgnore
	validateStrict = metav1.FieldValidationStrict
)

// Body is what a client sent.
type Body struct {
	Format     Format
	Data       []byte
	Validation string // Ignore, Warn or Strict; "" is Warn
}

// Known names the Go type of a kind that the server has, "" when it has no such kind.
type Known func(schema.GroupVersionKind) string

// Decode reads a body that is to be of kind want into obj and says what its fields are warned about. What apiVersion and
// kind the body leaves out are want's; those that it has must be.
func Decode(b Body, want schema.GroupVersionKind, obj runtime.Object, known Known) (warnings []string, err error) {
	r, err := b.read(want, obj, nil)
	if err != nil {
		return nil, err
	}
	err = r.err
	if r.err == nil || b.Format != Protobuf { // of which nothing is known when it can't be read
		err = cmp.Or(checkKind(r.actual, want, known), err)
	}
	if err == nil {
		err = r.refused(b)
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

// reading is what came of reading a body.
type reading struct {
	said   schema.GroupVersionKind // what it says it is
	actual schema.GroupVersionKind // what it is; what it does not say is as it should be
	strict []error                 // the fields that are unknown or there twice
	err    error                   // why it is no such object
}

// read reads the body into obj, which is to be of kind want, of version v where that says more than obj's type. The error is
// about bodies that do not even say what they are.
func (b Body) read(want schema.GroupVersionKind, obj runtime.Object, v *objects.Served) (r reading, err error) {
	data, twice, err := b.json()
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
	r.said = obj.GetObjectKind().GroupVersionKind()
	r.actual = r.said
	if strictly && r.actual == want && r.err == nil && len(r.strict) == 0 {
		return r, nil
	}
	// Then it has to be looked at more closely: what a body is, it may also say in capitals, or twice.
	if r.said, err = interpret(data); err != nil {
		return r, unrecognized(b.Data, want.Kind, err)
	}
	r.actual = fill(r.said, want)
	return r, nil
}

// refused is the error of a body whose fields are not what they are to be, where that is one.
func (r reading) refused(b Body) error {
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

// json returns the body as JSON, and that a field is there twice, which JSON made of YAML does not show any more; a protobuf
// body is returned as it is.
func (b Body) json() (data []byte, twice, err error) {
	if b.Format != YAML {
		return b.Data, nil, nil
	}
	if b.Validation != validateIgnore {
		if data, twice = yaml.YAMLToJSONStrict(b.Data); twice == nil {
			return data, nil, nil
		}
	}
	data, err = yaml.YAMLToJSON(b.Data)
	return data, twice, err
}

// interpret reads what kind JSON says it is.
func interpret(data []byte) (schema.GroupVersionKind, error) {
	var tm struct { // without a name of its own, which Kubernetes' messages do not show either
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

// errNoEnvelope reports that a body is none of Kubernetes' protobuf messages.
var errNoEnvelope = fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", protobufMagic)

func readEnvelope(data []byte, obj runtime.Object) (schema.GroupVersionKind, error) {
	rest, ok := bytes.CutPrefix(data, protobufMagic)
	if !ok {
		return schema.GroupVersionKind{}, errNoEnvelope
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(rest); err != nil {
		return schema.GroupVersionKind{}, err
	}
	gvk := schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)
	m, ok := obj.(interface{ Unmarshal([]byte) error })
	if !ok {
		return gvk, ErrNoProtobuf
	}
	return gvk, m.Unmarshal(unknown.Raw)
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

// checkKind refuses a body of another kind. The same kind in another version passes here: it is refused with better
// words once it is known to be readable.
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

// TypeName returns the name that error messages give the Go type of obj: "v1.Secret".
func TypeName(obj runtime.Object) string { return reflect.TypeOf(obj).Elem().String() }

// internalPackage is the word that Kubernetes' messages use for a group's types of no version.
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

// summary shows the beginning of a body in an error message: as text where it looks like JSON, else in hex.
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

// DecodeOptions reads a body of DeleteOptions, of whatever version it says it is.
func DecodeOptions(b Body, opts *metav1.DeleteOptions) error {
	actual, err := b.options(opts)
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

// options reads the body into opts and says what kind it is.
func (b Body) options(opts *metav1.DeleteOptions) (actual schema.GroupVersionKind, err error) {
	data := b.Data
	switch b.Format {
	case Protobuf:
		return readEnvelope(data, opts)
	case YAML:
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return actual, err
		}
	}
	if actual, err = interpret(data); err != nil {
		return actual, err
	}
	return actual, kjson.UnmarshalCaseSensitivePreserveInts(data, opts)
}

// unversioned are the kinds that are of every version.
var unversioned = []string{"Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"}

// says reports whether the body names its kind to be gvk.
func (b Body) says(gvk schema.GroupVersionKind) bool {
	if b.Format == Protobuf {
		actual, err := readEnvelope(b.Data, new(metav1.DeleteOptions))
		return err == nil && actual == gvk
	}
	data, _, err := b.json()
	if err != nil {
		return false
	}
	actual, err := interpret(data)
	return err == nil && actual == gvk
}
