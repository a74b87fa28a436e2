package table

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/objects"
)

var row = objects.Row(objects.Def[*corev1.ConfigMap]{
	Names:   objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"},
	New:     func() *corev1.ConfigMap { return new(corev1.ConfigMap) },
	NewList: func() runtime.Object { return new(corev1.ConfigMapList) },
	Columns: []objects.Column[*corev1.ConfigMap]{
		objects.NameColumn[*corev1.ConfigMap](),
		{Name: "Data", Type: "integer", Cell: func(m *corev1.ConfigMap, _ time.Time) any { return int64(len(m.Data)) }},
		{Name: "Text", Wide: true, Cell: func(*corev1.ConfigMap, time.Time) any { return `<"&">` }},
		{Name: "Flag", Type: "boolean", Cell: func(*corev1.ConfigMap, time.Time) any { return true }},
	},
})

// The hand-written encoding equals that of encoding/json for the type.
func TestTableJSONEqualsTypedEncoding(t *testing.T) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Labels: map[string]string{"x": "<y>"}}, Data: map[string]string{"k": "v"}}
	items := []*cache.Item{cache.NewItem(objects.Key{Namespace: "n", Name: "a"}, 3, m), cache.NewItem(objects.Key{Namespace: "n", Name: "a"}, 3, m)}
	for _, include := range []metav1.IncludeObjectPolicy{"", metav1.IncludeMetadata, metav1.IncludeNone, metav1.IncludeObject} {
		for _, header := range []bool{true, false} {
			p := Printer{Kind: codec.Kind{Resource: &row}, Version: "v1", Include: include}
			got, err := p.JSON(items, metav1.ListMeta{ResourceVersion: "3", Continue: "c"}, header)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(expected(m, include, header))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("include %q, header %v: -want +got\n%s", include, header, diff)
			}
		}
	}
}

// TestTableAsText checks that a table converted row by row equals one that is converted as a whole.
func TestTableAsText(t *testing.T) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"}, Data: map[string]string{"k": "v"}}
	item := cache.NewItem(objects.Key{Namespace: "n", Name: "a"}, 3, m)
	bare := row
	bare.Versions = []objects.VersionOf{row.Versions[0]}
	bare.Versions[0].Columns = nil
	for _, r := range []*objects.Resource{&row, &bare} {
		for _, items := range [][]*cache.Item{nil, {item}, {item, item}} {
			for _, f := range []codec.Media{{Format: codec.YAML}, {Format: codec.JSON, Pretty: true}} {
				pieces, err := Printer{Kind: codec.Kind{Resource: r}, Version: "v1"}.List(items, metav1.ListMeta{ResourceVersion: "3"})
				if err != nil {
					t.Fatal(err)
				}
				whole, err := pieces.Bytes()
				if err == nil {
					whole, err = codec.Finish(whole, f)
				}
				if err != nil {
					t.Fatal(err)
				}
				got, err := pieces.Text(f).Bytes()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(whole), string(got)); diff != "" {
					t.Errorf("%d rows as %s: -want +got\n%s", len(items), f.Format, diff)
				}
			}
		}
	}
}

func expected(m *corev1.ConfigMap, include metav1.IncludeObjectPolicy, header bool) *metav1.Table {
	out := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "3", Continue: "c"},
	}
	if header {
		out.ColumnDefinitions = definitions(row.Versions[0].Columns)
	}
	r := metav1.TableRow{Cells: []any{"a", int64(1), `<"&">`, true}}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		whole := m.DeepCopy()
		whole.Kind, whole.APIVersion = "ConfigMap", "v1"
		r.Object.Object = whole
	default:
		r.Object.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: m.ObjectMeta}
	}
	out.Rows = []metav1.TableRow{r, r}
	return out
}
