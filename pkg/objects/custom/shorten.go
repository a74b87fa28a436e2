package custom

import (
	"maps"
	"reflect"
	"slices"
)

// mostDoubts is up to how many values that nothing vouches for the library sees the whole object. It compares each thing that
// it finds wrong with all others, which takes hours for as many as an object has room for.
const mostDoubts = 1000

// shorten returns x without what follows when doubts are used up: values that are not vouched for, one by one. Nothing is left
// out of what the schema names, and x is not changed. was is what was there before, which is let pass however it is.
func (c *certain) shorten(x, was any, doubts *int) any {
	if c.vouches(x) || was != nil && reflect.DeepEqual(x, was) {
		return x
	}
	before, out := *doubts, x
	switch x := x.(type) {
	case []any:
		out = c.shortenItems(x, doubts)
	case map[string]any:
		was, _ := was.(map[string]any)
		out = c.shortenFields(x, was, doubts)
	}
	if *doubts == before { // it is not one of its parts that is in doubt
		*doubts--
	}
	return out
}

// shortenItems ends a list at the first doubt too many: so those before keep their indexes.
func (c *certain) shortenItems(items []any, doubts *int) []any {
	out := make([]any, 0, len(items))
	for _, item := range items {
		if *doubts <= 0 {
			break
		}
		out = append(out, c.items.shorten(item, nil, doubts))
	}
	return out
}

// shortenFields counts anew in each field that the schema names, for those must stay.
func (c *certain) shortenFields(fields, was map[string]any, doubts *int) map[string]any {
	out := make(map[string]any, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		part, known := c.fields[name]
		switch {
		case *doubts > 0 && known:
			out[name] = part.shorten(value, was[name], doubts)
		case *doubts > 0:
			out[name] = c.others.shorten(value, was[name], doubts)
		case known:
			again := mostDoubts
			out[name] = part.shorten(value, was[name], &again)
		case c.others.vouches(value) || slices.Contains(c.required, name):
			out[name] = value
		}
	}
	return out
}
