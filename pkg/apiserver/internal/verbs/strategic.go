package verbs

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxComparisons bounds the pairs of list items that a strategic merge patch compares. The library sorts each list that it
// merges, and looks for items from the beginning of the list, so that changing one of n items costs time in proportion to
// the square of n: 13 s for a pod with 11,000 environment variables. The bound is a list of 2500 items.
const maxComparisons = 2500 * 2500

// checkStrategic refuses a strategic merge patch that merges lists that are too long. object is the document that the patch
// changes; schema has the merge keys of its type.
func checkStrategic(object, patch map[string]any, schema strategicpatch.LookupPatchMeta) error {
	c := comparisons{}
	c.fields(lengthsOf(object), patch, schema)
	if c.count <= maxComparisons {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(
		fmt.Sprintf("the strategic merge patch would compare %d pairs of list items, the limit is %d", c.count, maxComparisons))
}

// lengths has the lengths of the lists in a value. All items of a list share one.
type lengths struct {
	items  int // of the longest list
	fields map[string]*lengths
}

func lengthsOf(v any) *lengths {
	l := &lengths{}
	l.add(v)
	return l
}

func (l *lengths) add(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			switch part.(type) {
			case map[string]any, []any:
				l.field(name).add(part)
			}
		}
	case []any:
		l.items = max(l.items, len(v))
		for _, part := range v {
			l.add(part)
		}
	}
}

// field returns the lengths of a field.
func (l *lengths) field(name string) *lengths {
	if l.fields == nil {
		l.fields = map[string]*lengths{}
	}
	f := l.fields[name]
	if f == nil {
		f = &lengths{}
		l.fields[name] = f
	}
	return f
}

// comparisons counts the comparisons of a patch.
type comparisons struct{ count int }

// fields counts the comparisons of a patch of an object. l has the lengths of the lists in the object; the patch's are added to it,
// because several items of a patch may patch the same list.
func (c *comparisons) fields(l *lengths, patch map[string]any, schema strategicpatch.LookupPatchMeta) {
	for name, value := range patch {
		if c.count > maxComparisons {
			return
		}
		switch value := value.(type) {
		case map[string]any:
			if inside, _, err := schema.LookupPatchMetadataForStruct(name); err == nil {
				c.fields(l.field(name), value, inside)
			}
		case []any:
			c.list(l, name, value, patch, schema)
		}
	}
}

// orderPrefix is the beginning of the name of a directive that orders the items of a list.
const orderPrefix = "$setElementOrder/"

// list counts the comparisons of a list of a patch, or of an order without a list.
func (c *comparisons) list(l *lengths, name string, items []any, patch map[string]any, schema strategicpatch.LookupPatchMeta) {
	var order []any
	if field, ok := strings.CutPrefix(name, orderPrefix); ok {
		if _, both := patch[field].([]any); both {
			return // is counted with the list
		}
		name, items, order = field, nil, items
	} else {
		order, _ = patch[orderPrefix+name].([]any)
	}
	inside, how, err := schema.LookupPatchMetadataForSlice(name)
	if err != nil || len(order) == 0 && !slices.Contains(how.GetPatchStrategies(), "merge") {
		return // the list is replaced, or the library refuses the patch
	}
	f := l.field(name)
	if f.items > 0 || len(order) > 0 { // else the list is new, and taken as it is
		c.count += (f.items + len(items)) * (f.items + len(items) + len(order))
	}
	f.items += len(items)
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			c.fields(f, fields, inside)
		}
	}
}
