package custom

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"github.com/minikctl/minikctl/pkg/objects"
)

var metaDoc = sync.OnceValue(metav1.ObjectMeta{}.SwaggerDoc)

// columns returns the name column and those of the definition, or the age column if it has none.
func (v *version) columns() []objects.ColumnOf {
	added := v.spec.AdditionalPrinterColumns
	if len(added) == 0 {
		added = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Age", Type: "date", Description: metaDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp"},
		}
	}
	out := make([]objects.ColumnOf, 0, len(added)+1)
	out = append(out, objects.ColumnOf{
		Name: "Name", Type: "string", Format: "name", Description: metaDoc()["name"],
		Cell: func(obj objects.Object, _ time.Time) any { return obj.GetName() },
	})
	for i := range added {
		out = append(out, v.column(&added[i]))
	}
	return out
}

func (v *version) column(c *apiextensionsv1.CustomResourceColumnDefinition) objects.ColumnOf {
	description := c.Description
	if description == "" {
		description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
	}
	path := sync.OnceValues(func() (*jsonpath.JSONPath, error) { return parsePath(c.Name, c.JSONPath) })
	return objects.ColumnOf{
		Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		Cell: func(obj objects.Object, now time.Time) any {
			p, err := path()
			if err != nil {
				return nil // validation rejects such definitions
			}
			fields, err := v.show(obj)
			if err != nil {
				return nil
			}
			return cell(p, c.Type, fields, now)
		},
	}
}

func parsePath(name, path string) (*jsonpath.JSONPath, error) {
	p := jsonpath.New(name).AllowMissingKeys(true)
	if err := p.Parse("{" + path + "}"); err != nil {
		return nil, fmt.Errorf("path %s: %w", path, err)
	}
	return p, nil
}

// cell returns the value at path as the column's type, or nil.
func cell(path *jsonpath.JSONPath, columnType string, obj map[string]any, now time.Time) any {
	found, err := path.FindResults(obj)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	switch columnType {
	case "string":
		var b strings.Builder
		if path.PrintResults(&b, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return b.String()
	case "integer":
		return integer(value)
	case "number":
		return number(value)
	case "boolean":
		if is, ok := value.(bool); ok {
			return is
		}
	case "date":
		return date(value, now)
	}
	return nil
}

func integer(value any) any {
	switch n := value.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i
		}
	}
	return nil
}

func number(value any) any {
	switch n := value.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	case json.Number:
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return nil
}

func date(value any, now time.Time) any {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	var t metav1.Time
	if t.UnmarshalQueryParameter(text) != nil {
		return "<invalid>"
	}
	return objects.Age(t, now)
}
