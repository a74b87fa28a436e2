package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Text converts a list in JSON into m's format, YAML or indented JSON, one item at a time. The bytes are those of Finish for the whole list.
func (p Pieces) Text(m Media) Pieces {
	return func(yield func([]byte, error) bool) {
		var t textList
		var item []byte
		for b, err := range p {
			var out []byte
			switch {
			case err != nil:
			case t.item == nil:
				t, err = newTextList(b, m)
				out = t.before
			case len(b) > 0 && (b[0] == ',' || b[0] == ']'):
				if len(item) > 0 {
					out, err = t.item(item)
				}
				if b[0] == ']' {
					out = append(out, t.after(len(item) > 0)...)
				}
				item = append(item[:0], b[1:]...)
			default:
				item = append(item, b...)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(out) > 0 && !yield(out, nil) {
				return
			}
		}
	}
}

// textList converts the parts of a list.
type textList struct {
	before []byte                           // the items
	item   func([]byte) ([]byte, error)     // converts one
	after  func(hasItems bool) (end []byte) // follows the items
}

// newTextList converts the part of a list up to its items.
func newTextList(head []byte, m Media) (textList, error) {
	if m.Format == YAML {
		return yamlList(head)
	}
	return indentedList(head)
}

func indentedList(head []byte) (textList, error) {
	empty, err := indent(append(bytes.Clone(head), "]}"...))
	if err != nil {
		return textList{}, err
	}
	t := textList{before: bytes.TrimSuffix(empty, []byte("]\n}"))}
	separator := "\n    "
	t.item = func(b []byte) ([]byte, error) {
		out := bytes.NewBuffer(make([]byte, 0, 2*len(b)))
		out.WriteString(separator)
		separator = ",\n    "
		err := json.Indent(out, b, "    ", "  ")
		return out.Bytes(), err
	}
	t.after = func(hasItems bool) []byte {
		if hasItems {
			return []byte("\n  ]\n}")
		}
		return []byte("]\n}")
	}
	return t, nil
}

// yamlList converts a list to YAML, in which the fields of an object are sorted.
func yamlList(head []byte) (textList, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(append(bytes.Clone(head), "]}"...), &fields); err != nil {
		return textList{}, fmt.Errorf("decode the head of a list: %w", err)
	}
	quoted := strings.TrimSuffix(string(head), `":[`) // the last field is that of the items
	array := quoted[strings.LastIndexByte(quoted, '"')+1:]
	part := func(belongs func(name string) bool) ([]byte, error) {
		some := map[string]json.RawMessage{}
		for name, value := range fields {
			if belongs(name) {
				some[name] = value
			}
		}
		if len(some) == 0 {
			return nil, nil
		}
		b, err := json.Marshal(some)
		if err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(b)
	}
	before, err := part(func(name string) bool { return name < array })
	if err != nil {
		return textList{}, err
	}
	rest, err := part(func(name string) bool { return name > array })
	if err != nil {
		return textList{}, err
	}
	name := []byte(array + ":\n")
	t := textList{before: before}
	begun := false
	t.item = func(b []byte) ([]byte, error) {
		list := append([]byte(`{"`+array+`":[`), b...)
		out, err := yaml.JSONToYAML(append(list, "]}"...))
		if begun {
			out = bytes.TrimPrefix(out, name)
		}
		begun = true
		return out, err
	}
	t.after = func(hasItems bool) []byte {
		if hasItems {
			return rest
		}
		return append([]byte(array+": []\n"), rest...)
	}
	return t, nil
}
