package whatif

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/plug"
)

// perfTemplates are the templates of objects that a scheduler_perf file names.
type perfTemplates struct {
	read  func(path string) ([]byte, error)
	dir   string
	known map[string]*perfTemplate
}

// perfTemplate is a template of an object, in YAML with text/template. Its fields are Index, the number of the object from 0 on, and Count, that of all.
type perfTemplate struct {
	path   string
	parsed *template.Template
	static []byte      // its text if it has no actions, so that it is the same for all objects
	first  *corev1.Pod // that the static text describes; nil before its first use
}

// pathOf returns a path of the file, relative to the present directory.
func (t *perfTemplates) pathOf(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(t.dir, path)
}

// get reads a template.
func (t *perfTemplates) get(path string) (*perfTemplate, error) {
	path = t.pathOf(path)
	if known, ok := t.known[path]; ok {
		return known, nil
	}
	data, err := t.read(path)
	if err != nil {
		return nil, err
	}
	out := &perfTemplate{path: path}
	if out.parsed, err = template.New(path).Funcs(templateFuncs()).Parse(string(data)); err != nil {
		return nil, err
	}
	if !bytes.Contains(data, []byte("{{")) {
		out.static = data
	}
	t.known[path] = out
	return out, nil
}

// text returns the object with a number, in YAML.
func (t *perfTemplate) text(index, count int) ([]byte, error) {
	if t.static != nil {
		return t.static, nil
	}
	var out bytes.Buffer
	if err := t.parsed.Execute(&out, map[string]any{"Index": index, "Count": count}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// podGroup returns the PodGroup with a number, of either API, in a namespace.
func (t *perfTemplate) podGroup(namespace string, index, count int) (objects.Object, error) {
	meta, err := decodeTemplate[metav1.PartialObjectMetadata](t, index, count)
	if err != nil {
		return nil, err
	}
	var out objects.Object
	switch meta.APIVersion {
	case schedulingv1alpha2.SchemeGroupVersion.String():
		out, err = decodeTemplate[schedulingv1alpha2.PodGroup](t, index, count)
	case "scheduling.x-k8s.io/v1alpha1":
		out, err = decodeTemplate[unstructured.Unstructured](t, index, count)
	default:
		err = fmt.Errorf("%s: apiVersion: %q has no PodGroups that are simulated", t.path, meta.APIVersion)
	}
	if err != nil {
		return nil, err
	}
	out.SetNamespace(namespace)
	return out, nil
}

// decodeTemplate returns the object with a number. Unknown fields are errors, except in metadata of objects of any kind.
func decodeTemplate[T any](t *perfTemplate, index, count int) (*T, error) {
	text, err := t.text(index, count)
	if err != nil {
		return nil, err
	}
	out := new(T)
	switch any(out).(type) {
	case *metav1.PartialObjectMetadata, *unstructured.Unstructured:
		err = yaml.Unmarshal(text, out)
	default:
		err = plug.Decode(text, out) // names of fields in any case, as in scheduler_perf
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.path, err)
	}
	return out, nil
}

// templateFuncs returns the functions of scheduler_perf's templates. Their arguments are numbers, also as text.
func templateFuncs() template.FuncMap {
	return template.FuncMap{
		"AddFloat":      addFloat,
		"AddInt":        func(numbers ...any) (int, error) { return whole(addFloat(numbers...)) },
		"SubtractFloat": subtract,
		"SubtractInt":   func(a, b any) (int, error) { return whole(subtract(a, b)) },
		"MultiplyFloat": multiply,
		"MultiplyInt":   func(numbers ...any) (int, error) { return whole(multiply(numbers...)) },
		"DivideFloat":   divide,
		"DivideInt":     func(a, b any) (int, error) { return whole(divide(a, b)) },
		"Mod":           mod,
	}
}

func numberOf(v any) (float64, error) {
	f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
		return 0, fmt.Errorf("%v is not a number", v)
	}
	return f, nil
}

func whole(v float64, err error) (int, error) { return int(v), err }

func addFloat(numbers ...any) (float64, error) {
	sum := 0.0
	for _, n := range numbers {
		v, err := numberOf(n)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

func multiply(numbers ...any) (float64, error) {
	product := 1.0
	for _, n := range numbers {
		v, err := numberOf(n)
		if err != nil {
			return 0, err
		}
		product *= v
	}
	return product, nil
}

func subtract(a, b any) (float64, error) {
	x, err := numberOf(a)
	y, err2 := numberOf(b)
	return x - y, errors.Join(err, err2)
}

func divide(a, b any) (float64, error) {
	x, err := numberOf(a)
	y, err2 := numberOf(b)
	if err = errors.Join(err, err2); err == nil && y == 0 {
		err = errors.New("division by zero")
	}
	if err != nil {
		return 0, err
	}
	return x / y, nil
}

func mod(a, b any) (int, error) {
	x, err := numberOf(a)
	y, err2 := numberOf(b)
	if err = errors.Join(err, err2); err == nil && int(y) == 0 {
		err = errors.New("division by zero")
	}
	if err != nil {
		return 0, err
	}
	return int(x) % int(y), nil
}
