package badger

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4/y"

	"github.com/minikctl/minikctl/pkg/store"
)

// state is what the files of a database hold, as verify has found it.
type state struct {
	meta meta           // the newest record that holds
	head store.Revision // the newest revision on disk
	live digest         // of the objects at head
	// adopt means that the record does not describe the files: they are those of a version that kept no digest, or a kill has left
	// a part of a commit that was not acknowledged.
	adopt bool
	// truncated means that changes between the compacted revision and the head are missing, although every live object is
	// there.
	truncated bool
	repair    repair // of MANIFEST
}

// verify reads a database without changing it, and returns an error that names what is missing or damaged. acked is the newest
// revision that was acknowledged; digested means that the store has recorded a digest with each commit.
//
// A commit's record is proof of all that was committed before: the digest of its live objects, and one change on disk for each
// revision. The commit that a kill interrupts was not acknowledged, and a part of it may be on disk, with or without its record.
// Then the record before it is the proof.
func verify(f *files, acked store.Revision, digested bool) (state, error) {
	var s state
	err := recovered(func() (err error) {
		s, err = f.verifyRecords(acked, digested)
		return err
	})
	if f.damaged != nil {
		return state{}, f.damaged
	}
	s.repair = f.repair
	return s, f.repair.explain(err)
}

func (f *files) verifyRecords(acked store.Revision, digested bool) (state, error) {
	records, err := f.records()
	if err != nil {
		return state{}, err
	}
	if len(records) == 0 || !records[0].digested {
		if digested {
			return state{}, fmt.Errorf("the record of the last commit is missing; revision %d had been acknowledged", acked)
		}
		return f.undigested(records, acked)
	}
	var first error
	for _, r := range records {
		if r.at < acked {
			break
		}
		s, err := f.holds(r)
		if err == nil {
			return s, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = fmt.Errorf("the newest revision on disk is %d, but %d had been acknowledged: files are damaged or missing", records[0].at, acked)
	}
	return state{}, first
}

// record is a meta record at its revision.
type record struct {
	meta
	at store.Revision
}

// records returns the two newest records.
func (f *files) records() ([]record, error) {
	var out []record
	it := f.iterator()
	defer it.Close()
	for it.Seek(y.KeyWithTs(metaKey, ^uint64(0))); it.Valid() && bytes.Equal(y.ParseKey(it.Key()), metaKey) && len(out) < 2; it.Next() {
		m, err := decodeMeta(it.Value().Value)
		if err != nil {
			return nil, fmt.Errorf("the record at revision %d is damaged", y.ParseTs(it.Key()))
		}
		out = append(out, record{m, store.Revision(y.ParseTs(it.Key()))})
	}
	return out, nil
}

// holds compares the objects with a record.
func (f *files) holds(r record) (state, error) {
	from := max(r.compacted, r.complete)
	c, err := f.count(r.at, from)
	if err != nil {
		return state{}, err
	}
	if c.at != r.live {
		return state{}, fmt.Errorf("%d objects are on disk where revision %d had %d: files are damaged or missing", c.at.count, r.at, r.live.count)
	}
	return state{
		meta: r.meta, head: max(c.head, r.at), live: c.newest, adopt: c.head > r.at,
		truncated: c.changes != uint64(r.at-from),
	}, nil
}

// undigested returns the state of a database without a digest. A table that MANIFEST does not list is either left over
// from a kill, or was lost with the end of MANIFEST. Without a digest the two cases cannot be distinguished, so such a
// table is an error.
func (f *files) undigested(records []record, acked store.Revision) (state, error) {
	if f.repair.needed() {
		return state{}, errors.New("no digest shows what is missing")
	}
	if lost := f.unlisted(); len(lost) > 0 {
		return state{}, fmt.Errorf("MANIFEST does not list %v", lost)
	}
	var s state
	if len(records) > 0 {
		s.meta, s.head = records[0].meta, records[0].at
	}
	c, err := f.count(^store.Revision(0), s.meta.compacted)
	if err != nil {
		return state{}, err
	}
	s.head, s.live, s.adopt = max(s.head, c.head), c.newest, true
	if s.head < acked {
		return state{}, fmt.Errorf("the newest revision on disk is %d, but %d had been acknowledged: files are damaged or missing", s.head, acked)
	}
	return s, nil
}

// unlisted returns the tables that MANIFEST does not list.
func (f *files) unlisted() []string {
	names, _ := listFiles(f.dir)
	return slices.DeleteFunc(names, func(name string) bool {
		return filepath.Ext(name) != ".sst" || f.lists(name)
	})
}

func (f *files) lists(name string) bool {
	for _, tables := range f.levels {
		for _, t := range tables {
			if t.name == name {
				return true
			}
		}
	}
	return false
}

// counted is the result of count.
type counted struct {
	at, newest digest         // of the live objects at a revision, and at the newest
	head       store.Revision // the newest revision of an object
	changes    uint64         // the number of changes after one revision up to another
}

// count reads all blocks of all tables, whose checksums are verified on the way. It digests the objects that were live at revision
// at, and counts the changes after revision from.
func (f *files) count(at, from store.Revision) (counted, error) {
	var c counted
	var key []byte
	var seenNewest, seenAt bool
	it := f.iterator()
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		k, rev := y.ParseKey(it.Key()), store.Revision(y.ParseTs(it.Key()))
		if !bytes.HasPrefix(k, []byte(objectPrefix)) {
			continue
		}
		if !bytes.Equal(k, key) {
			key, seenNewest, seenAt = append(key[:0], k...), false, false
		}
		c.head = max(c.head, rev)
		if rev > from && rev <= at {
			c.changes++
		}
		if seenNewest && (seenAt || rev > at) {
			continue
		}
		v := it.Value()
		live := v.Meta&bitDelete == 0
		if live && v.Meta&bitPointer != 0 {
			if _, err := f.follow(it.Key(), v.Value); err != nil {
				return c, fmt.Errorf("value of %s: %w", k[len(objectPrefix):], err)
			}
		}
		if !seenNewest {
			seenNewest = true
			if live {
				c.newest.add(k[len(objectPrefix):], rev)
			}
		}
		if !seenAt && rev <= at {
			seenAt = true
			if live {
				c.at.add(k[len(objectPrefix):], rev)
			}
		}
	}
	return c, nil
}
