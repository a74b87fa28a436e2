package cache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Corrupt is a stored value that cannot be decoded. A table leaves its object out of lists and watches, so that one
// damaged value does not make the reads of all other objects fail. A read of the object itself returns it as the error.
type Corrupt struct {
	Key      objects.Key
	StoreKey string
	Revision store.Revision // of the write that set the value
	Err      error          // of the decoding
}

// Error returns Kubernetes' text for a corrupt object.
func (c *Corrupt) Error() string {
	return fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=%d: %v",
		c.StoreKey, c.Revision, c.Err)
}

func (c *Corrupt) Unwrap() error { return c.Err }

// check returns an error for a stored value that cannot be decoded, or whose name or namespace does not match its key.
// Readers of an item that the cache keeps encoded decode it again; they rely on this check.
func (t *Table) check(path string, value []byte) error {
	if t.resource.Custom() {
		return checkJSON(value)
	}
	obj := t.resource.New()
	if err := decodeInto(obj, value); err != nil {
		return err
	}
	return checkName(path, obj)
}

// checkName returns an error for an object whose name or namespace is not that of its key.
func checkName(path string, obj objects.Object) error {
	if key := keyOf(path); obj.GetName() != key.Name || obj.GetNamespace() != key.Namespace {
		return fmt.Errorf("the value is that of %q in namespace %q", obj.GetName(), obj.GetNamespace())
	}
	return nil
}

// checkJSON returns an error for a value that is no custom resource in JSON. It does not check the fields: the
// definition, which may change, determines which fields are valid.
func checkJSON(value []byte) error {
	if !json.Valid(value) {
		return errors.New("invalid JSON")
	}
	if value[0] != '{' {
		return errors.New("not a JSON object")
	}
	if at, ok := memberOf(value, 0, "apiVersion"); !ok || value[at] != '"' {
		return errors.New("no apiVersion")
	}
	if at, ok := memberOf(value, 0, "metadata"); !ok || value[at] != '{' {
		return errors.New("no metadata")
	}
	return nil
}

// corruptItem returns the Corrupt for the value at path.
func (t *Table) corruptItem(path string, rev store.Revision, err error) *Corrupt {
	return &Corrupt{Key: keyOf(path), StoreKey: t.prefix + path, Revision: rev, Err: err}
}

// addCorrupt records a value that cannot be decoded, and logs it once. t.mu must be held.
func (t *Table) addCorrupt(path string, c *Corrupt) {
	if t.corrupt == nil {
		t.corrupt = map[string]*Corrupt{}
	}
	if was := t.corrupt[path]; was == nil || was.Revision != c.Revision {
		slog.Error("stored object cannot be decoded", "key", c.StoreKey, "revision", uint64(c.Revision), "err", c.Err)
	}
	t.corrupt[path] = c
}

// setCorrupt replaces the values that cannot be decoded by those that a fill has found. t.mu must be held.
func (t *Table) setCorrupt(found map[string]*Corrupt) {
	for path := range t.corrupt {
		if found[path] == nil {
			delete(t.corrupt, path)
		}
	}
	for path, c := range found {
		t.addCorrupt(path, c)
	}
}

// Corrupt returns the values of a namespace ("": all) that cannot be decoded, in key order, as far as the table has read them.
func (t *Table) Corrupt(namespace string) []*Corrupt {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.corrupt) == 0 {
		return nil
	}
	var out []*Corrupt
	for _, c := range t.corrupt {
		if namespace == "" || c.Key.Namespace == namespace {
			out = append(out, c)
		}
	}
	sortCorrupt(out)
	return out
}

// Corrupt returns the values of all tables that cannot be decoded, in key order.
func (c *Cache) Corrupt() []*Corrupt {
	var out []*Corrupt
	for _, t := range c.all() {
		out = append(out, t.Corrupt("")...)
	}
	sortCorrupt(out)
	return out
}

func sortCorrupt(all []*Corrupt) {
	slices.SortFunc(all, func(a, b *Corrupt) int { return cmp.Compare(a.StoreKey, b.StoreKey) })
}

// Check returns the values in s that cannot be decoded as rows describe them, in key order. Objects of other resources are custom
// resources.
func Check(ctx context.Context, s store.Store, rows []objects.Resource) ([]*Corrupt, error) {
	tables := map[string]*Table{}
	for i := range rows {
		prefix := Prefix(rows[i].Names.GR())
		tables[prefix] = &Table{resource: &rows[i], prefix: prefix}
	}
	found := map[string]*Corrupt{}
	opts := store.ListOptions{Limit: fillPage, Bytes: fillBytes}
	for {
		page, err := s.List(ctx, Root, opts)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if c := checkEntry(tables, e); c != nil {
				found[e.Key] = c
			}
		}
		if opts.At = page.Revision; !page.More {
			return slices.SortedFunc(maps.Values(found), func(a, b *Corrupt) int { return cmp.Compare(a.StoreKey, b.StoreKey) }), nil
		}
		opts.After = page.Entries[len(page.Entries)-1].Key
	}
}

func checkEntry(tables map[string]*Table, e store.Entry) *Corrupt {
	prefix := PrefixOf(e.Key)
	err, path := error(nil), e.Key[len(prefix):]
	t := tables[prefix]
	if t != nil {
		err = t.check(path, e.Value)
	} else {
		err = checkJSON(e.Value)
	}
	if err == nil {
		return nil
	}
	return &Corrupt{Key: keyOf(path), StoreKey: e.Key, Revision: e.Modified, Err: err}
}
