package cache

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/minikctl/minikctl/pkg/store"
)

// Stored objects have no resourceVersion. The JSON for clients is the stored JSON with the resourceVersion inserted.

// versionField is the field's name in an object's metadata.
const versionField = "resourceVersion"

// withVersion inserts the resourceVersion into JSON that Encode made, which has no white space and sorted keys. ok is false when the
// JSON has no metadata, or has a resourceVersion.
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

// memberOf returns the index of a field's value in the object that begins at from.
func memberOf(b []byte, from int, name string) (int, bool) {
	found, ok := 0, false
	members(b, from, func(key []byte, _, value int) bool {
		found, ok = value, string(key) == name
		return !ok
	})
	return found, ok
}

// placeOf returns the index at which to insert a field that the object does not have, and whether other fields come before it.
func placeOf(b []byte, from int, name string) (at int, others, ok bool) {
	ok = true
	at = members(b, from, func(key []byte, start, _ int) bool {
		switch {
		case string(key) == name, bytes.IndexByte(key, '\\') >= 0: // the order of an escaped key is not known
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

// members calls yield for each field of the object that begins at from, with the indexes of the field and of its value, until yield
// returns false. It returns the index of that field, or of the object's end; 0 for an object that it can't read.
func members(b []byte, from int, yield func(key []byte, start, value int) bool) int {
	at := from + 1
	for at < len(b) && b[at] == '"' {
		end := endOfValue(b, at)
		if end+1 >= len(b) || b[end] != ':' {
			return 0
		}
		if !yield(b[at+1:end-1], at, end+1) {
			return at
		}
		if at = endOfValue(b, end+1); at < len(b) && b[at] == ',' {
			at++
		}
	}
	if at < len(b) && b[at] == '}' {
		return at
	}
	return 0
}

// endOfValue returns the index behind the value that begins at from, and len(b) or more for a value that does not end.
func endOfValue(b []byte, from int) int {
	depth := 0
	for at := from; at < len(b); at++ {
		switch b[at] {
		case '"':
			at = pastText(b, at)
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of the enclosing object or array
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

// pastText returns the index of the closing quote of the string that begins at from.
func pastText(b []byte, from int) int {
	for at := from + 1; at < len(b); at++ {
		next := bytes.IndexAny(b[at:], `"\`)
		if next < 0 {
			return len(b)
		}
		if at += next; b[at] == '"' {
			return at
		}
		at++ // skip the escaped character
	}
	return len(b)
}
