package patch

import (
	"fmt"
	"slices"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// container is an object or an array whose parts operations change. The methods, and their errors, are those of the library.
type container interface {
	get(key string) (any, error) // of an object, nil for an absent field
	set(key string, v any) error
	add(key string, v any) error
	remove(key string) error
	inside(key string) container // nil: the part is absent, or no container
}

// containerOf returns the container that at points to in a document. It replaces a slice there by an *array.
func containerOf(at *any) container {
	switch v := (*at).(type) {
	case map[string]any:
		return object(v)
	case []any:
		a := arrayOf(v)
		*at = a
		return a
	case *array:
		return v
	}
	return nil
}

type object map[string]any

func (o object) get(key string) (any, error) { return o[key], nil }

func (o object) set(key string, v any) error {
	o[key] = v
	return nil
}

func (o object) add(key string, v any) error { return o.set(key, v) }

func (o object) remove(key string) error {
	if _, ok := o[key]; !ok {
		return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, jsonpatch.ErrMissing) //nolint:staticcheck // the library's words
	}
	delete(o, key)
	return nil
}

func (o object) inside(key string) container {
	v := o[key]
	list, isList := v.([]any)
	if !isList {
		return containerOf(&v)
	}
	a := arrayOf(list)
	o[key] = a
	return a
}

// array is an array that inserts and removes items at any place in little time, also when it has a million items: it is a
// list of chunks, none of them empty.
type array struct {
	chunks [][]any
	length int
}

// chunkSize is the length of a new chunk. One of twice the length is split.
const chunkSize = 1024

func arrayOf(items []any) *array {
	a := &array{length: len(items)}
	for chunk := range slices.Chunk(items, chunkSize) {
		a.chunks = append(a.chunks, chunk) // without spare capacity: appending copies it
	}
	return a
}

// locate returns the chunk of an item, and the item's index in it. The index after the last item is in the last chunk.
func (a *array) locate(i int) (chunk, offset int) {
	for chunk < len(a.chunks)-1 && i >= len(a.chunks[chunk]) {
		i -= len(a.chunks[chunk])
		chunk++
	}
	return chunk, i
}

// index returns the index of a key, less than length. Negative keys count from the end.
func index(key string, length int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	if i >= length || i < -length {
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, jsonpatch.ErrInvalidIndex) //nolint:staticcheck // the library's words
	}
	if i < 0 {
		i += length
	}
	return i, nil
}

func (a *array) get(key string) (any, error) {
	i, err := index(key, a.length)
	if err != nil {
		return nil, err
	}
	chunk, offset := a.locate(i)
	return a.chunks[chunk][offset], nil
}

func (a *array) set(key string, v any) error {
	i, err := index(key, a.length)
	if err != nil {
		return err
	}
	chunk, offset := a.locate(i)
	a.chunks[chunk][offset] = v
	return nil
}

func (a *array) add(key string, v any) error {
	i := a.length
	if key != "-" {
		if _, err := strconv.Atoi(key); err != nil {
			return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
		}
		var err error
		if i, err = index(key, a.length+1); err != nil {
			return err
		}
	}
	a.length++
	if len(a.chunks) == 0 {
		a.chunks = [][]any{{v}}
		return nil
	}
	chunk, offset := a.locate(i)
	items := slices.Insert(a.chunks[chunk], offset, v)
	a.chunks[chunk] = items
	if len(items) >= 2*chunkSize {
		a.chunks[chunk] = items[:chunkSize:chunkSize]
		a.chunks = slices.Insert(a.chunks, chunk+1, items[chunkSize:])
	}
	return nil
}

func (a *array) remove(key string) error {
	i, err := index(key, a.length)
	if err != nil {
		return err
	}
	a.length--
	chunk, offset := a.locate(i)
	if items := slices.Delete(a.chunks[chunk], offset, offset+1); len(items) > 0 {
		a.chunks[chunk] = items
	} else {
		a.chunks = slices.Delete(a.chunks, chunk, chunk+1)
	}
	return nil
}

func (a *array) inside(key string) container {
	i, err := index(key, a.length)
	if err != nil {
		return nil
	}
	chunk, offset := a.locate(i)
	return containerOf(&a.chunks[chunk][offset])
}

// settled returns a document with its *arrays replaced by slices, or ErrDepth. The result shares its objects with v.
func settled(v any, depth int) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if depth >= maxDepth {
			return nil, ErrDepth
		}
		for name, part := range v {
			if !nested(part) {
				continue
			}
			part, err := settled(part, depth+1)
			if err != nil {
				return nil, err
			}
			v[name] = part
		}
	case *array:
		items := make([]any, 0, v.length)
		for _, chunk := range v.chunks {
			items = append(items, chunk...)
		}
		return settled(items, depth)
	case []any:
		if depth >= maxDepth {
			return nil, ErrDepth
		}
		for i, part := range v {
			if !nested(part) {
				continue
			}
			part, err := settled(part, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = part
		}
	}
	return v, nil
}

// nested reports whether a value is an object or an array.
func nested(v any) bool {
	switch v.(type) {
	case map[string]any, []any, *array:
		return true
	}
	return false
}
