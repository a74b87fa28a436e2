package custom

import (
	"maps"
	"reflect"
	"slices"
)

// maxUncertain is the highest number of doubts, values that the quickSchema does not accept, with which the library
// validates an object as a whole. The library compares each error with all others, which would take hours for the number
// of errors that an object can have.
const maxUncertain = 1000

// shorten returns x without the items and fields that follow the last permitted doubt. It keeps all fields that the
// schema names, and does not change x. was is the old value, which needs no validation.
func (c *quickSchema) shorten(x, was any, doubts *int) any {
	if c.accepts(x) || was != nil && reflect.DeepEqual(x, was) {
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
	if *doubts == before { // the doubt is about the value itself
		*doubts--
	}
	return out
}

// shortenItems cuts a list at the first doubt beyond the limit, so that earlier items keep their indexes.
func (c *quickSchema) shortenItems(items []any, doubts *int) []any {
	out := make([]any, 0, len(items))
	for _, item := range items {
		if *doubts <= 0 {
			break
		}
		out = append(out, c.items.shorten(item, nil, doubts))
	}
	return out
}

// shortenFields restarts the count in each field that the schema names, since those are kept.
func (c *quickSchema) shortenFields(fields, was map[string]any, doubts *int) map[string]any {
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
			again := maxUncertain
			out[name] = part.shorten(value, was[name], &again)
		case c.others.accepts(value) || slices.Contains(c.required, name):
			out[name] = value
		}
	}
	return out
}
