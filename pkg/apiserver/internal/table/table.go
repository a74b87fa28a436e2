// Package table owns server-side printing: it makes the Table of objects that kubectl get shows, from the columns of
// their row in the objects table.
package table

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Printer makes tables of one kind of object.
type Printer struct {
	Kind    codec.Kind
	Version string // of meta.k8s.io: v1 or v1beta1
	Include metav1.IncludeObjectPolicy
	Now     time.Time
}

// columns are those of the version that was asked for.
func (p Printer) columns() []objects.ColumnOf {
	if p.Kind.Served != nil {
		return p.Kind.Served.Columns
	}
	return p.Kind.Resource.Versions[0].Columns
}

// Table returns the table of items. Without header it has no column definitions, as all but the first of a watch.
func (p Printer) Table(items []*cache.Item, meta metav1.ListMeta, header bool) (*metav1.Table, error) {
	t := &metav1.Table{ListMeta: meta, Rows: make([]metav1.TableRow, 0, len(items))}
	t.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	t.APIVersion = metav1.GroupName + "/" + p.Version
	columns := p.columns()
	if header {
		t.ColumnDefinitions = definitions(columns)
	}
	for _, it := range items {
		obj, err := it.Object()
		if err != nil {
			return nil, err
		}
		row, err := p.row(columns, obj, it)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
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

func (p Printer) row(columns []objects.ColumnOf, obj objects.Object, it *cache.Item) (metav1.TableRow, error) {
	row := metav1.TableRow{Cells: make([]any, 0, len(columns))}
	for _, c := range columns {
		row.Cells = append(row.Cells, c.Cell(obj, p.Now))
	}
	switch p.Include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		b, err := p.Kind.Encode(it, codec.JSON)
		if err != nil {
			return row, err
		}
		row.Object = runtime.RawExtension{Raw: b}
	default:
		part := codec.PartialOf(obj)
		part.Kind, part.APIVersion = "PartialObjectMetadata", metav1.GroupName+"/"+p.Version
		row.Object = runtime.RawExtension{Object: part}
	}
	return row, nil
}
