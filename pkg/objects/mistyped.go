package objects

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

const (
	// maxMistyped is the number of items of lists and maps, of a wrong JSON type, that are decoded. The decoder makes an item of the Go type
	// for each one, and goes on: a body of 3 MB can have 1.5 million numbers where containers of 900 bytes are expected.
	maxMistyped = 1000

	// fewItems is the size of JSON that can't have many items.
	fewItems = 16 << 10

	maxNesting = 10000 // no decoder accepts more
)

// withFewMistyped returns JSON whose decoding into a value of type t has the same result as data's: an error if data has items of
// lists and maps of a wrong type, of which all but the first maxMistyped are left out, and otherwise data.
func withFewMistyped(data []byte, t reflect.Type) []byte {
	if len(data) <= fewItems {
		return data
	}
	m := mistyped{data: data}
	m.value(m.space(0), formOf(t), 0)
	if m.kept == 0 {
		return data
	}
	return append(m.out, data[m.kept:]...)
}

// mistyped reads JSON once. Its methods take the index at which something begins and return the index behind it. They accept
// anything, since the decoder refuses what is no JSON.
type mistyped struct {
	data  []byte
	found int
	out   []byte // without the items that are left out
	kept  int    // how much of data is in out, or left out
}

func (m *mistyped) value(i int, f *form, depth int) int {
	switch {
	case i >= len(m.data) || depth > maxNesting:
		return len(m.data)
	case m.data[i] == '{':
		return m.object(i, f, depth)
	case m.data[i] == '[':
		return m.array(i, f.item(), depth)
	case m.data[i] == '"':
		return m.text(i)
	}
	for i++; i < len(m.data) && strings.IndexByte(",]} \t\r\n", m.data[i]) < 0; i++ {
	}
	return i
}

func (m *mistyped) object(i int, f *form, depth int) int {
	end := i + 1 // of the previous field, before its comma
	first := true
	isMap := f != nil && f.fields == nil && f.begins == inObject
	for i = m.space(i + 1); i < len(m.data) && m.data[i] != '}'; i = m.next(i) {
		start := i
		i = m.value(i, nil, depth+1)
		key := m.data[start:i]
		if i = m.space(i); i >= len(m.data) || m.data[i] != ':' {
			return len(m.data)
		}
		i = m.space(i + 1)
		part := f.field(key)
		fits := !isMap || i >= len(m.data) || part.accepts(m.data[i])
		i = m.value(i, part, depth+1)
		m.leaveOut(fits || first, end, i)
		end, first = i, false
	}
	return i + 1
}

// leaveOut leaves the item that ends at i out if it does not fit and too many others don't. end is the end of the previous item.
func (m *mistyped) leaveOut(fits bool, end, i int) {
	if fits {
		return
	}
	m.found++
	if m.found > maxMistyped && i <= len(m.data) {
		m.out = append(m.out, m.data[m.kept:end]...)
		m.kept = i
	}
}

func (m *mistyped) array(i int, f *form, depth int) int {
	end := i + 1 // of the previous item, before its comma
	first := true
	for i = m.space(i + 1); i < len(m.data) && m.data[i] != ']'; i = m.next(i) {
		fits := f.accepts(m.data[i])
		i = m.value(i, f, depth+1)
		m.leaveOut(fits || first, end, i)
		end, first = i, false
	}
	return i + 1
}

// next returns the index of what follows a value in an object or array: the next one, or the closing bracket.
func (m *mistyped) next(i int) int {
	if i = m.space(i); i < len(m.data) && m.data[i] == ',' {
		return m.space(i + 1)
	}
	if i < len(m.data) && (m.data[i] == ']' || m.data[i] == '}') {
		return i
	}
	return len(m.data)
}

func (m *mistyped) text(i int) int {
	for i++; i < len(m.data); i++ {
		switch m.data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(m.data)
}

func (m *mistyped) space(i int) int {
	for i < len(m.data) && strings.IndexByte(" \t\r\n", m.data[i]) >= 0 {
		i++
	}
	return i
}

// form is what JSON a Go type is decoded from; nil: any.
type form struct {
	begins string // the bytes that the values may begin with
	fields func() map[string]*form
	items  func() *form // also the values of a map
}

// accepts reports whether a value that begins with a byte may be decoded.
func (f *form) accepts(first byte) bool {
	return f == nil || strings.IndexByte(f.begins, first) >= 0
}

// field returns the form of an object's field, by its quoted name.
func (f *form) field(key []byte) *form {
	switch {
	case f == nil || len(key) < 2:
		return nil
	case f.fields != nil:
		return f.fields()[string(key[1:len(key)-1])]
	case f.begins == inObject:
		return f.items()
	}
	return nil
}

// item returns the form of a list's items.
func (f *form) item() *form {
	if f == nil || f.items == nil || f.begins == inObject {
		return nil
	}
	return f.items()
}

// The first bytes of values. n is that of null.
const (
	inObject = "{n"
	inArray  = "[n"
	inString = `"n`
	inNumber = "-0123456789n"
	inBool   = "tfn"
)

var (
	forms           sync.Map // of *form by reflect.Type
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func formOf(t reflect.Type) *form {
	for t.Kind() == reflect.Pointer && !decodesItself(t) {
		t = t.Elem()
	}
	if known, ok := forms.Load(t); ok {
		return known.(*form)
	}
	f := newForm(t)
	forms.Store(t, f)
	return f
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(unmarshaler) || p.Implements(unmarshaler) || p.Implements(textUnmarshaler)
}

func newForm(t reflect.Type) *form {
	if decodesItself(t) {
		return nil
	}
	items := func() *form { return formOf(t.Elem()) }
	switch t.Kind() {
	case reflect.Struct:
		return &form{begins: inObject, fields: sync.OnceValue(func() map[string]*form { return fieldForms(t) })}
	case reflect.Map:
		return &form{begins: inObject, items: items}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil // bytes
		}
		return &form{begins: inArray, items: items}
	case reflect.String:
		return &form{begins: inString}
	case reflect.Bool:
		return &form{begins: inBool}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return &form{begins: inNumber}
	}
	return nil
}

// fieldForms returns the forms of the fields of a struct, by their names in JSON.
func fieldForms(t reflect.Type) map[string]*form {
	out := map[string]*form{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct {
			for inside, f := range fieldForms(field.Type) {
				if _, ok := out[inside]; !ok {
					out[inside] = f
				}
			}
			continue
		}
		if name == "" {
			name = field.Name
		}
		out[name] = formOf(field.Type)
	}
	return out
}
