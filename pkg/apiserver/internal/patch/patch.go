// Package patch applies JSON merge patches (RFC 7386) and JSON patches (RFC 6902) to JSON documents. The results and the
// errors are those of the library that Kubernetes uses, gopkg.in/evanphx/json-patch.v4.
//
// The library decodes one level at a time and copies the rest, so that its work grows with the depth of a document times its
// size: seconds for a body of 60 KB. Here documents are decoded once, and a patch costs time in proportion to the document,
// the patch, and what its operations copy.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// maxDepth is the depth of the documents that encoding/json decodes.
const maxDepth = 10000

// ErrDepth is the error of a patch whose result is nested too deep to be decoded again.
var ErrDepth = errors.New("exceeded max depth")

// ErrTestFailed is the error of a test operation whose value differs.
var ErrTestFailed = jsonpatch.ErrTestFailed

// ErrBadPatch is the error of a merge patch that is no JSON object or array.
var ErrBadPatch = jsonpatch.ErrBadJSONPatch

// Merge applies a merge patch to an object and returns the result. The error is ErrBadPatch, or about doc.
func Merge(doc, patch []byte) ([]byte, error) {
	old, ok := decode(doc).(map[string]any)
	if !ok {
		return nil, jsonpatch.ErrBadJSONDoc
	}
	switch changes := decode(patch).(type) {
	case map[string]any:
		merge(old, changes)
		return json.Marshal(old)
	case []any: // is the result
		prune(changes)
		return json.Marshal(changes)
	}
	return nil, ErrBadPatch
}

// decode decodes JSON, with numbers as json.Number. It returns nil for invalid JSON, and for null.
func decode(data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out any
	if d.Decode(&out) != nil {
		return nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	return out
}

// merge merges changes into an object. The object then shares parts of changes, which merge may modify.
func merge(object, changes map[string]any) {
	for name, now := range changes {
		if now == nil {
			delete(object, name)
			continue
		}
		was, isObject := object[name].(map[string]any)
		more, both := now.(map[string]any)
		switch {
		case isObject && both:
			merge(was, more)
			continue
		case !isObject:
			prune(now)
		}
		object[name] = now // the library keeps the nulls in an array that replaces an object
	}
}

// prune removes fields that are null from the objects in a value.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			if part == nil {
				delete(v, name)
			} else {
				prune(part)
			}
		}
	case []any:
		for _, part := range v {
			prune(part)
		}
	}
}
