package cache

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/minikctl/minikctl/pkg/store"
)

// The store keeps objects without their resourceVersion. Of those that it keeps as JSON, what clients get is made by putting
// it in.

// versionField is the field's name in an object's metadata.
const versionField = "resourceVersion"

// withVersion returns JSON as Encode makes it, without white space and with sorted keys, with the resourceVersion in its
// place. ok is false when there is no such place.
func withVersion(value []byte, rev store.Revision) (out []byte, ok bool) {
	metadata, ok := memberOf(value, 0, "metadata")
	if !ok || value[metadata] != '{' {
		return nil, false
	}
	at, others, ok := placeOf(value, metadata, versionField)
	if !ok {
		return nil, false
	}
	text := strconv.AppendUint([]byte(`"`+versionField+`":"`), uint64(rev), 10)
	text = append(text, '"')
	switch {
	case value[at] != '}':
		text = append(text, ',')
	case others:
		text = append([]byte{','}, text...)
	}
	return slices.Concat(value[:at], text, value[at:]), true
}

// memberOf returns where the value of a field begins, of the object that begins at from.
func memberOf(b []byte, from int, name string) (int, bool) {
	found, ok := 0, false
	members(b, from, func(key []byte, _, value int) bool {
		found, ok = value, string(key) == name
		return !ok
	})
	return found, ok
}

// placeOf returns where a field belongs that an object does not have, and whether there are others before it.
func placeOf(b []byte, from int, name string) (at int, others, ok bool) {
	ok = true
	at = members(b, from, func(key []byte, start, _ int) bool {
		switch {
		case string(key) == name, bytes.IndexByte(key, '\\') >= 0: // where one belongs that is escaped can't be seen
			ok = false
		case string(key) > name:
			at = start
			return false
		}
		others = true
		return ok
	})
	return at, others, ok && at > 0
}

// members calls yield for the fields of the object that begins at from, with where each and its value begin, until it returns
// false. It returns where that field begins, or the end of the object; 0 when that can't be read.
func members(b []byte, from int, yield func(key []byte, start, value int) bool) int {
	at := from + 1
	for at < len(b) && b[at] == '"' {
		end := past(b, at)
		if end+1 >= len(b) || b[end] != ':' {
			return 0
		}
		if !yield(b[at+1:end-1], at, end+1) {
			return at
		}
		if at = past(b, end+1); at < len(b) && b[at] == ',' {
			at++
		}
	}
	if at < len(b) && b[at] == '}' {
		return at
	}
	return 0
}

// past returns what follows the value that begins at from; at the end or beyond it when it has no end.
func past(b []byte, from int) int {
	depth := 0
	for at := from; at < len(b); at++ {
		switch b[at] {
		case '"':
			at = pastText(b, at)
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what the value is in
				return at
			}
			depth--
		case ',':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return at + 1
		}
	}
	return len(b)
}

// pastText returns where the text ends that begins at from.
func pastText(b []byte, from int) int {
	for at := from + 1; at < len(b); at++ {
		next := bytes.IndexAny(b[at:], `"\`)
		if next < 0 {
			return len(b)
		}
		if at += next; b[at] == '"' {
			return at
		}
		at++ // what is escaped
	}
	return len(b)
}
