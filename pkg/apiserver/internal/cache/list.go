package cache

import (
	"context"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Page is the answer of a list.
type Page struct {
	Items     []*Item
	Revision  store.Revision
	More      bool
	Last      string // the path of the last item
	Remaining int64  // how many follow, where the selector takes everything
}

// List returns the first limit (0: all) items that s takes, as far as the feed has come.
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
		if s.takes(i) && !p.add(i, limit) {
			break
		}
	}
	return p
}

// add puts i on the page, or notes that there was no room.
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

// ListAfter goes on with a list behind path after, as far as the feed has come.
func (t *Table) ListAfter(ctx context.Context, s *Selector, after string, limit int) (Page, error) {
	snap, err := t.snapshot(ctx)
	if err != nil {
		return Page{}, err
	}
	return snap.page(s, after, limit), nil
}

// ListAt returns what s takes behind path after, as it was at revision at. What has not changed since comes from the
// table, the rest from the store. Errors are those of store.List.
func (t *Table) ListAt(ctx context.Context, s *Selector, after string, limit int, at store.Revision) (Page, error) {
	snap, err := t.snapshot(ctx)
	if err != nil {
		return Page{}, err
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
	opts := store.ListOptions{At: at, Limit: fillPage}
	if after != "" {
		opts.After = t.prefix + after
	}
	for {
		page, err := t.cache.store.List(ctx, prefix, opts)
		if err != nil {
			return Page{}, err
		}
		for n, e := range page.Entries {
			i := t.itemAt(snap, e)
			if !s.matches(i) || p.add(i, limit) {
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

// unchangedSince reports whether the snapshot is also that of revision at.
func (s snapshot) unchangedSince(at store.Revision) bool {
	return at <= s.revision && s.last.revision <= at && s.last.revision != 0
}

func (t *Table) itemAt(snap snapshot, e store.Entry) *Item {
	path := e.Key[len(t.prefix):]
	if i, ok := snap.tree.Get(&Item{path: path}); ok && i.Revision == e.Modified {
		return i
	}
	return t.newItem(path, e.Modified, e.Value)
}

// count adds the number of entries behind a key.
func (t *Table) count(ctx context.Context, prefix, after string, at store.Revision, n *int64) error {
	opts := store.ListOptions{At: at, Limit: fillPage, After: after}
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
