package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Operations are the operations of a JSON patch.
type Operations = jsonpatch.Patch

// Decode decodes a JSON patch.
func Decode(data []byte) (Operations, error) { return jsonpatch.DecodePatch(data) }

// Count returns the number of elements of a JSON array without decoding them; 0 for other JSON. The result for invalid
// JSON is undefined.
func Count(data []byte) int {
	count, depth, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			fallthrough
		default:
			if count == 0 && depth == 1 && (c > ' ' && c != ']') {
				count = 1
			}
			switch {
			case quoted:
			case c == '[' || c == '{':
				if depth++; depth == 1 && c == '{' {
					return 0
				}
			case c == ']' || c == '}':
				depth--
			case c == ',' && depth == 1:
				count++
			}
		}
	}
	return count
}

// MaxCopied is Kubernetes' bound of the bytes that the copy operations of a patch add.
const MaxCopied = 3 << 20

// Apply applies the operations of a JSON patch to an object. maxCopied bounds the bytes that its copy operations add:
// without a bound, a sequence of copies could double the object with each operation. The error is ctx's error, ErrDepth,
// or the error of an operation that cannot be applied.
func Apply(ctx context.Context, doc []byte, steps Operations, maxCopied int64) ([]byte, error) {
	object, ok := decode(doc).(map[string]any)
	if !ok {
		return nil, jsonpatch.ErrBadJSONDoc
	}
	p := patching{root: object, maxCopied: maxCopied}
	for _, step := range steps {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := p.apply(step); err != nil {
			return nil, err
		}
	}
	out, err := settled(p.root, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// patching is a document while the operations of a patch are applied. Its values are those of encoding/json, except that
// an array on the path of an earlier operation is an *array.
type patching struct {
	root      any
	maxCopied int64
	copied    int64
}

func (p *patching) apply(step jsonpatch.Operation) error {
	switch kind := step.Kind(); kind {
	case "add":
		return p.add(step)
	case "remove":
		return p.remove(step)
	case "replace":
		return p.replace(step)
	case "move":
		return p.move(step)
	case "test":
		return p.test(step)
	case "copy":
		return p.copy(step)
	default:
		return fmt.Errorf("Unexpected kind: %s", kind) //nolint:staticcheck // the library's words
	}
}

// valueOf returns the value of an operation; nil without one.
func valueOf(step jsonpatch.Operation) any {
	raw := step["value"]
	if raw == nil {
		return nil
	}
	return decode(*raw)
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// find returns the container of the value at a path, and the value's key in it. It returns nil if there is no such container.
func (p *patching) find(path string) (container, string) {
	_, rest, ok := strings.Cut(path, "/")
	if !ok {
		return nil, ""
	}
	at := containerOf(&p.root)
	for at != nil {
		name, more, ok := strings.Cut(rest, "/")
		if !ok {
			break
		}
		at, rest = at.inside(unescape.Replace(name)), more
	}
	return at, unescape.Replace(rest)
}

func (p *patching) add(step jsonpatch.Operation) error {
	path, err := step.Path()
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", jsonpatch.ErrMissing)
	}
	at, key := p.find(path)
	if at == nil {
		return fmt.Errorf("add operation does not apply: doc is missing path: \"%s\": %w", path, jsonpatch.ErrMissing) //nolint:gocritic // the library's words
	}
	if err := at.add(key, valueOf(step)); err != nil {
		return fmt.Errorf("error in add for path: '%s': %w", path, err)
	}
	return nil
}

func (p *patching) remove(step jsonpatch.Operation) error {
	path, err := step.Path()
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", jsonpatch.ErrMissing)
	}
	at, key := p.find(path)
	if at == nil {
		return fmt.Errorf("remove operation does not apply: doc is missing path: \"%s\": %w", path, jsonpatch.ErrMissing) //nolint:gocritic // the library's words
	}
	if err := at.remove(key); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (p *patching) replace(step jsonpatch.Operation) error {
	path, err := step.Path()
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	if path == "" {
		return p.replaceAll(step)
	}
	at, key := p.find(path)
	if at == nil {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", path, jsonpatch.ErrMissing)
	}
	if _, err := at.get(key); err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, jsonpatch.ErrMissing)
	}
	if err := at.set(key, valueOf(step)); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err) // the library's words
	}
	return nil
}

// replaceAll replaces the document.
func (p *patching) replaceAll(step jsonpatch.Operation) error {
	switch value := valueOf(step).(type) {
	case map[string]any, []any:
		p.root = value
		return nil
	}
	return fmt.Errorf("replace operation value must be object or array: %w", error(nil)) // the library's words
}

func (p *patching) move(step jsonpatch.Operation) error {
	from, err := step.From()
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	at, key := p.find(from)
	if at == nil {
		return fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", from, jsonpatch.ErrMissing)
	}
	value, err := at.get(key)
	if err == nil {
		err = at.remove(key)
	}
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	path, err := step.Path()
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	if at, key = p.find(path); at == nil {
		return fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", path, jsonpatch.ErrMissing)
	}
	if err := at.add(key, value); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", path, err)
	}
	return nil
}

func (p *patching) test(step jsonpatch.Operation) error {
	path, err := step.Path()
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	value := p.root
	if path != "" {
		at, key := p.find(path)
		if at == nil {
			return fmt.Errorf("test operation does not apply: is missing path: %s: %w", path, jsonpatch.ErrMissing)
		}
		if value, err = at.get(key); err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", path, err)
		}
	}
	if !equal(value, valueOf(step), 0) {
		return fmt.Errorf("testing value %s failed: %w", path, jsonpatch.ErrTestFailed)
	}
	return nil
}

func (p *patching) copy(step jsonpatch.Operation) error {
	from, err := step.From()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	at, key := p.find(from)
	if at == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing from path: %s: %w", from, jsonpatch.ErrMissing)
	}
	value, err := at.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := step.Path()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", jsonpatch.ErrMissing)
	}
	if at, key = p.find(path); at == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", path, jsonpatch.ErrMissing)
	}
	if value, err = p.duplicate(value); err != nil {
		return err
	}
	at, key = p.find(path) // again: duplicate has replaced the *arrays in the value, which may contain the path
	if err := at.add(key, value); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

// duplicate returns a copy of a value, unless there have been too many.
func (p *patching) duplicate(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	out, err := settled(v, 0)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if p.copied += int64(len(text)); p.copied > p.maxCopied {
		return nil, jsonpatch.NewAccumulatedCopySizeError(p.maxCopied, p.copied)
	}
	return decode(text), nil
}

// equal compares two values. Values that are nested too deep are not equal.
func equal(a, b any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, part := range a {
			if other, ok := b[name]; !ok || !equal(part, other, depth+1) {
				return false
			}
		}
		return true
	case []any:
		return equalItems([][]any{a}, b, depth)
	case *array:
		return equalItems(a.chunks, b, depth)
	}
	switch b.(type) {
	case map[string]any, []any, *array:
		return false
	}
	return a == b
}

// equalItems compares the items of an array with a decoded value.
func equalItems(chunks [][]any, value any, depth int) bool {
	items, ok := value.([]any)
	if !ok {
		return false
	}
	for _, chunk := range chunks {
		if len(items) < len(chunk) {
			return false
		}
		for i, part := range chunk {
			if !equal(part, items[i], depth+1) {
				return false
			}
		}
		items = items[len(chunk):]
	}
	return len(items) == 0
}
