package track

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

//go:generate go run ./gen -o schema.txt

// schemaText holds the merge schemas of all types of k8s.io/api. Each line has the name of a type, a space, and the JSON of its
// typeText. The types of a kind are parsed at the first write of the kind; the text as a whole is never parsed.
//
//go:embed schema.txt
var schemaText []byte

// typeText is a schema.Atom in JSON. At most one field is set; without any, values are untyped.
type typeText struct {
	Scalar string    `json:"s,omitempty"`
	List   *listText `json:"l,omitempty"`
	Map    *mapText  `json:"m,omitempty"`
}

type listText struct {
	Element  refText  `json:"e"`
	Relation string   `json:"r,omitempty"`
	Keys     []string `json:"k,omitempty"`
}

type mapText struct {
	Fields   []fieldText `json:"f,omitempty"`
	Element  *refText    `json:"e,omitempty"`
	Relation string      `json:"r,omitempty"`
}

type fieldText struct {
	Name    string  `json:"n"`
	Type    refText `json:"t"`
	Default any     `json:"d,omitempty"`
}

// refText is a reference to a named type, or an inlined type.
type refText struct {
	Name     string `json:"n,omitempty"`
	Relation string `json:"r,omitempty"` // overrides that of the type
	typeText
}

// Line returns the line of schema.txt for a type.
func Line(def schema.TypeDef) ([]byte, error) {
	t, err := textOf(def.Atom)
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", def.Name, err)
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", def.Name, err)
	}
	return append([]byte(def.Name+" "), append(b, '\n')...), nil
}

// textOf omits unions, which merging does not use.
func textOf(a schema.Atom) (typeText, error) {
	var out typeText
	if a.Scalar != nil {
		out.Scalar = string(*a.Scalar)
	}
	if l := a.List; l != nil {
		element, err := refOf(l.ElementType)
		if err != nil {
			return out, err
		}
		out.List = &listText{Element: element, Relation: string(l.ElementRelationship), Keys: l.Keys}
	}
	if m := a.Map; m != nil {
		out.Map = &mapText{Relation: string(m.ElementRelationship)}
		if !reflect.DeepEqual(m.ElementType, schema.TypeRef{}) {
			element, err := refOf(m.ElementType)
			if err != nil {
				return out, err
			}
			out.Map.Element = &element
		}
		for _, f := range m.Fields {
			ref, err := refOf(f.Type)
			if err != nil {
				return out, err
			}
			out.Map.Fields = append(out.Map.Fields, fieldText{f.Name, ref, plain(f.Default)})
		}
	}
	return out, nil
}

// plain converts decoded YAML to values that encoding/json accepts.
func plain(v any) any {
	m, ok := v.(map[any]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, v := range m {
		out[fmt.Sprint(k)] = plain(v)
	}
	return out
}

func refOf(r schema.TypeRef) (refText, error) {
	t, err := textOf(r.Inlined)
	out := refText{typeText: t}
	if r.NamedType != nil {
		out.Name = *r.NamedType
	}
	if r.ElementRelationship != nil {
		out.Relation = string(*r.ElementRelationship)
	}
	return out, err
}

func (t typeText) atom() schema.Atom {
	var a schema.Atom
	if t.Scalar != "" {
		s := schema.Scalar(t.Scalar)
		a.Scalar = &s
	}
	if l := t.List; l != nil {
		a.List = &schema.List{ElementType: l.Element.ref(), ElementRelationship: schema.ElementRelationship(l.Relation), Keys: l.Keys}
	}
	if m := t.Map; m != nil {
		a.Map = &schema.Map{ElementRelationship: schema.ElementRelationship(m.Relation)}
		if m.Element != nil {
			a.Map.ElementType = m.Element.ref()
		}
		for _, f := range m.Fields {
			a.Map.Fields = append(a.Map.Fields, schema.StructField{Name: f.Name, Type: f.Type.ref(), Default: f.Default})
		}
	}
	return a
}

func (r refText) ref() schema.TypeRef {
	out := schema.TypeRef{Inlined: r.atom()}
	if r.Name != "" {
		out.NamedType = &r.Name
	}
	if r.Relation != "" {
		relation := schema.ElementRelationship(r.Relation)
		out.ElementRelationship = &relation
	}
	return out
}

// eachName calls f with the name of each type that t refers to.
func (t typeText) eachName(f func(string)) {
	if t.List != nil {
		t.List.Element.eachRef(f)
	}
	if t.Map != nil {
		if t.Map.Element != nil {
			t.Map.Element.eachRef(f)
		}
		for _, field := range t.Map.Fields {
			field.Type.eachRef(f)
		}
	}
}

func (r refText) eachRef(f func(string)) {
	if r.Name != "" {
		f(r.Name)
	}
	r.eachName(f)
}

// lines returns the JSON of each type by name.
var lines = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{}
	for rest := schemaText; len(rest) > 0; {
		line, more, _ := bytes.Cut(rest, []byte{'\n'})
		if name, text, ok := bytes.Cut(line, []byte{' '}); ok {
			out[string(name)] = text
		}
		rest = more
	}
	return out
})

// parserOf returns a parser for the named type and the types that it refers to; nil if there is no such type.
func parserOf(name string) (*typed.ParseableType, error) {
	if lines()[name] == nil {
		return nil, nil
	}
	var types []schema.TypeDef
	seen := map[string]bool{}
	todo := []string{name}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[next] {
			continue
		}
		seen[next] = true
		var t typeText
		if err := json.Unmarshal(lines()[next], &t); err != nil {
			return nil, fmt.Errorf("merge schema of %s: %w", next, err)
		}
		types = append(types, schema.TypeDef{Name: next, Atom: t.atom()})
		t.eachName(func(n string) { todo = append(todo, n) })
	}
	p := &typed.Parser{Schema: schema.Schema{Types: types}}
	t := p.Type(name)
	return &t, nil
}

// nameOf returns the name of a Go type in the schema: io.k8s.api.core.v1.Pod for k8s.io/api/core/v1.Pod.
func nameOf(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}
