package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/minikctl/minikctl/pkg/objects"
)

// largeFields is the size in bytes from which the managedFields that a client sends are sorted.
const largeFields = 32 << 10

// sortSent sorts the large managedFields that a client has sent with obj. The server writes them in order; the library reads others in
// time that grows with the square of their number.
func sortSent(obj objects.Object) {
	sent := obj.GetManagedFields()
	isLong := func(i int) bool { return sent[i].FieldsV1 != nil && len(sent[i].FieldsV1.Raw) >= largeFields }
	sorted := false
	for i := range sent {
		if !isLong(i) {
			continue
		}
		raw := sortFields(sent[i].FieldsV1.Raw)
		if bytes.Equal(raw, sent[i].FieldsV1.Raw) {
			continue
		}
		if !sorted {
			sent, sorted = slices.Clone(sent), true // the entries may be shared with the stored object
		}
		sent[i].FieldsV1 = sent[i].FieldsV1.DeepCopy()
		sent[i].FieldsV1.Raw = raw
	}
	if sorted {
		obj.SetManagedFields(sent)
	}
}

// fieldNode is a field in FieldsV1, with the fields inside.
type fieldNode struct {
	name   string
	path   fieldpath.PathElement
	fields []fieldNode
}

// sortFields returns FieldsV1 with the fields at each level in order. Fields that the library can't read become a short text that it can't
// read either.
func sortFields(raw []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	fields, sorted, err := readFields(d)
	switch {
	case err != nil:
		return []byte("invalid")
	case sorted:
		return raw
	}
	return writeFields(make([]byte, 0, len(raw)), fields)
}

var errFields = errors.New("FieldsV1 must consist of objects")

// readFields reads the object that d is at, and reports whether it was in order. null is an empty object.
func readFields(d *json.Decoder) (fields []fieldNode, sorted bool, err error) {
	switch t, err := d.Token(); {
	case err != nil:
		return nil, false, err
	case t == nil:
		return nil, true, nil
	case t != json.Delim('{'):
		return nil, false, errFields
	}
	sorted = true
	var last *fieldpath.PathElement
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, false, err
		}
		n := fieldNode{name: t.(string)}
		path, pathErr := fieldpath.DeserializePathElement(n.name)
		inside := false
		if n.fields, inside, err = readFields(d); err != nil {
			return nil, false, err
		}
		sorted = sorted && inside
		if pathErr == nil { // else it is "." or one that the library ignores, whose place does not matter
			sorted = sorted && (last == nil || last.Compare(path) <= 0)
			n.path, last = path, &path
		}
		fields = append(fields, n)
	}
	if _, err = d.Token(); err != nil {
		return nil, false, err
	}
	slices.SortStableFunc(fields, func(a, b fieldNode) int { return a.path.Compare(b.path) })
	return fields, sorted, nil
}

func writeFields(to []byte, fields []fieldNode) []byte {
	to = append(to, '{')
	for i, f := range fields {
		if i > 0 {
			to = append(to, ',')
		}
		name, _ := json.Marshal(f.name) // a string can be encoded
		to = append(append(to, name...), ':')
		to = writeFields(to, f.fields)
	}
	return append(to, '}')
}
