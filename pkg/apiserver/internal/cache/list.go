package cache

import (
	"context"
	"errors"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Page is the result of a list.
type Page struct {
	Items     []*Item
	Revision  store.Revision
	More      bool
	Last      string // the path of the last item
	Remaining int64  // the number of items that follow; set where the selector selects everything
}

// List returns the first limit (0: all) items that s selects, at the revision that the feed has reached.
func (t *Table) List(ctx context.Context, s *Selector, limit int) (Page, error) {
	if name, ok := s.exact("metadata.name"); ok && (s.Namespace != "" || t.resource.Names.Cluster) {
		return t.listOne(ctx, s, name)
	}
	if items, rev, ok, err := t.listIndexed(ctx, s); err != nil || ok {
		return s.page(items, rev, limit), err
	}
	snap, err := t.snapshot(ctx)
	if err != nil {
		return Page{}, err
	}
	return snap.page(s, "", limit), nil
}

func (t *Table) listOne(ctx context.Context, s *Selector, name string) (Page, error) {
	rev := t.cache.Revision()
	i, ok, err := t.Get(ctx, objects.Key{Namespace: s.Namespace, Name: name})
	if c := (*Corrupt)(nil); errors.As(err, &c) {
		return Page{Revision: rev}, nil
	}
	if err != nil || !ok || !s.matches(i) {
		return Page{Revision: rev}, err
	}
	return Page{Items: []*Item{i}, Revision: max(rev, i.Revision), Last: i.path}, nil
}

func (t *Table) listIndexed(ctx context.Context, s *Selector) ([]*Item, store.Revision, bool, error) {
	if err := t.ready(ctx); err != nil {
		return nil, 0, false, err
	}
	reached := t.cache.Revision()
	t.mu.Lock()
	defer t.mu.Unlock()
	items, ok := t.indexed(s)
	return items, max(t.revision, reached), ok, nil
}

func (s *Selector) page(items []*Item, rev store.Revision, limit int) Page {
	p := Page{Revision: rev}
	for _, i := range items {
		if s.selects(i) && !p.add(i, limit) {
			break
		}
	}
	return p
}

// add puts i on the page. On a full page it sets More and returns false.
func (p *Page) add(i *Item, limit int) bool {
	if limit > 0 && len(p.Items) == limit {
		p.More = true
		return false
	}
	p.Items = append(p.Items, i)
	p.Last = i.path
	return true
}

func (s snapshot) page(sel *Selector, after string, limit int) Page {
	p := Page{Revision: s.revision}
	if sel.Namespace == "" && sel.Everything() && limit == 0 {
		p.Items = make([]*Item, 0, s.tree.Len())
	}
	count := limit > 0 && sel.Everything()
	s.ascend(sel.Namespace, after, func(i *Item) bool {
		switch {
		case p.More:
			p.Remaining++
			return true
		case sel.matches(i) && !p.add(i, limit):
			p.Remaining++
			return count
		}
		return true
	})
	return p
}

// ListAfter returns the items behind path after, at the revision that the feed has reached.
func (t *Table) ListAfter(ctx context.Context, s *Selector, after string, limit int) (Page, error) {
	snap, err := t.snapshot(ctx)
	if err != nil {
		return Page{}, err
	}
	return snap.page(s, after, limit), nil
}

// ListAt returns the items that s selects behind path after, at revision at. Items that have not changed since come from the table,
// the others from the store. Errors are those of store.List.
func (t *Table) ListAt(ctx context.Context, s *Selector, after string, limit int, at store.Revision) (Page, error) {
	snap, err := t.snapshot(ctx)
	if err != nil {
		return Page{}, err
	}
	if at < store.Revision(t.cache.compacted.Load()) {
		return Page{}, store.ErrCompacted
	}
	if snap.unchangedSince(at) {
		p := snap.page(s, after, limit)
		p.Revision = at
		return p, nil
	}
	prefix := t.prefix
	if s.Namespace != "" {
		prefix += s.Namespace + "/"
	}
	p := Page{Revision: at}
	opts := store.ListOptions{At: at, Limit: fillPage, Keys: true}
	if after != "" {
		opts.After = t.prefix + after
	}
	for {
		page, err := t.cache.store.List(ctx, prefix, opts)
		if err != nil {
			return Page{}, err
		}
		for n, e := range page.Entries {
			i, err := t.itemAt(ctx, snap, s, e, at)
			if err != nil {
				return Page{}, err
			}
			if i == nil || p.add(i, limit) {
				continue
			}
			p.Remaining = int64(len(page.Entries) - n)
			if page.More && s.Everything() {
				err = t.count(ctx, prefix, page.Entries[len(page.Entries)-1].Key, at, &p.Remaining)
			}
			return p, err
		}
		if !page.More {
			return p, nil
		}
		opts.After = page.Entries[len(page.Entries)-1].Key
	}
}

// unchangedSince reports whether the table is the same at revision at as in the snapshot.
func (s snapshot) unchangedSince(at store.Revision) bool {
	return s.end.Revision <= at && at <= s.revision
}

// itemAt returns the item of an entry at revision at; nil if s does not match it, or if its value cannot be decoded. If the table has another
// version, the item holds neither object nor value, and reads them from the store when it is encoded: a list would otherwise hold
// those of all objects that have changed since, until its client has read it.
func (t *Table) itemAt(ctx context.Context, snap snapshot, s *Selector, e store.Entry, at store.Revision) (*Item, error) {
	path := e.Key[len(t.prefix):]
	if i, ok := snap.tree.Get(&Item{path: path}); ok && i.Revision == e.Modified {
		if !s.matches(i) {
			return nil, nil
		}
		return i, nil
	}
	full, err := t.cache.store.Get(ctx, e.Key, at)
	if err != nil {
		return nil, err
	}
	i, err := t.newItem(path, e.Modified, full.Value)
	if err != nil || !s.matches(i) {
		return nil, nil //nolint:nilerr // a value that cannot be decoded is left out
	}
	decode := func() (objects.Object, error) {
		full, err := t.cache.store.Get(ctx, e.Key, at)
		if err != nil {
			return nil, err
		}
		return t.decoder(full.Value, full.Modified)()
	}
	// Only this list has the item: its encodings must not take the place of those that lists share.
	return &Item{Key: i.Key, Revision: i.Revision, path: path, size: i.size, sum: i.sum, kept: t.cache.kept.ofWatches, decode: decode}, nil
}

// count adds to n the number of entries behind key after.
func (t *Table) count(ctx context.Context, prefix, after string, at store.Revision, n *int64) error {
	opts := store.ListOptions{At: at, Limit: fillPage, After: after, Keys: true}
	for {
		page, err := t.cache.store.List(ctx, prefix, opts)
		if err != nil {
			return err
		}
		*n += int64(len(page.Entries))
		if !page.More {
			return nil
		}
		opts.After = page.Entries[len(page.Entries)-1].Key
	}
}
