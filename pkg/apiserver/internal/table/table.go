// Package table owns server-side printing: it renders objects as the Table that kubectl get shows, from the columns of their
// resource.
package table

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Printer renders tables of one kind of object.
type Printer struct {
	Kind    codec.Kind
	Version string // of meta.k8s.io: v1 or v1beta1
	Include metav1.IncludeObjectPolicy
	Now     time.Time
}

// columns returns the columns of the requested version.
func (p Printer) columns() []objects.ColumnOf {
	if p.Kind.Version != nil {
		return p.Kind.Version.Columns
	}
	return p.Kind.Resource.Versions[0].Columns
}

// JSON returns the metav1.Table of items. Without header it has no column definitions, as every table of a watch except the
// first. It appends the bytes itself: the objects are already encoded, and a marshaller would check and copy them again at
// each level.
func (p Printer) JSON(items []*cache.Item, meta metav1.ListMeta, header bool) ([]byte, error) {
	b, err := p.head(meta, header)
	if err != nil {
		return nil, err
	}
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = p.appendRow(b, it); err != nil {
			return nil, err
		}
	}
	return append(b, "]}"...), nil
}

// List returns the metav1.Table of items, with column definitions and a newline. Rows are made when they are reached.
func (p Printer) List(items []*cache.Item, meta metav1.ListMeta) (codec.Pieces, error) {
	head, err := p.head(meta, true)
	if err != nil {
		return nil, err
	}
	return func(yield func([]byte, error) bool) {
		if !yield(head, nil) {
			return
		}
		for i, it := range items {
			var b []byte
			if i > 0 {
				b = append(b, ',')
			}
			b, err := p.appendRow(b, it)
			if !yield(b, err) || err != nil {
				return
			}
		}
		yield([]byte("]}\n"), nil)
	}, nil
}

// head returns a table up to its rows.
func (p Printer) head(meta metav1.ListMeta, header bool) ([]byte, error) {
	var defs []metav1.TableColumnDefinition
	if header {
		defs = definitions(p.columns())
	}
	b := append([]byte(nil), `{"kind":"Table","apiVersion":"`+metav1.GroupName+"/"+p.Version+`","metadata":`...)
	b, err := appendJSON(b, meta)
	if err != nil {
		return nil, err
	}
	b = append(b, `,"columnDefinitions":`...)
	if b, err = appendJSON(b, defs); err != nil {
		return nil, err
	}
	return append(b, `,"rows":[`...), nil
}

func definitions(columns []objects.ColumnOf) []metav1.TableColumnDefinition {
	out := make([]metav1.TableColumnDefinition, 0, len(columns))
	for _, c := range columns {
		out = append(out, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
		})
	}
	return out
}

func (p Printer) appendRow(b []byte, it *cache.Item) ([]byte, error) {
	obj, err := it.Object()
	if err != nil {
		return nil, err
	}
	b = append(b, `{"cells":[`...)
	for i, c := range p.columns() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendCell(b, c.Cell(obj, p.Now)); err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	b = append(b, ']')
	if completed := p.Kind.Resource.Completed; completed != nil {
		if conditions := completed(obj); len(conditions) > 0 {
			b = append(b, `,"conditions":`...)
			if b, err = appendJSON(b, conditions); err != nil {
				return nil, err
			}
		}
	}
	b = append(b, `,"object":`...)
	if b, err = p.appendObject(b, it); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

func (p Printer) appendObject(b []byte, it *cache.Item) ([]byte, error) {
	switch p.Include {
	case metav1.IncludeNone:
		return append(b, "null"...), nil
	case metav1.IncludeObject:
		whole, err := p.Kind.Encode(it, codec.JSON)
		return append(b, whole...), err
	}
	part, err := codec.Partial(it, p.Version, codec.JSON)
	return append(b, part...), err
}

func appendCell(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	}
	return appendJSON(b, v)
}

func appendJSON(b []byte, v any) ([]byte, error) {
	more, err := json.Marshal(v)
	return append(b, more...), err
}
