// Package store owns the contract of minikctl's revisioned state: a key-value map in which every change has a revision
// of its own, reads can be made at a past revision, and every change after a revision can be watched.
//
// Only the API server uses it. Drivers (memory, badger, later etcd) live in the packages below this one, and each passes
// the suite in storetest. A revision is what clients see as resourceVersion.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Revision numbers the changes of a store, from 1. It only grows; numbers may be left out. 0 means "none" or "the newest".
type Revision uint64

// Store is a revisioned map. Implementations are safe for concurrent use. Keys are non-empty and of printable ASCII
// with '/' between their parts. Values handed out are shared and must not be changed.
type Store interface {
	// Get returns the entry of key as it was at revision at (0: now). ErrNotFound when there was none, ErrCompacted
	// when at is below the compacted revision, ErrFuture when it is above Head.
	Get(ctx context.Context, key string, at Revision) (Entry, error)

	// List returns the entries whose keys start with prefix, in key order, as they were at one revision.
	// Errors are those of Get, but an empty list is not an error.
	List(ctx context.Context, prefix string, opts ListOptions) (Page, error)

	// Write applies ops together: all of them or, when one's Expect does not hold, none. Each op gets its own revision,
	// in order; a batch names a key once. When Write returns, the batch is durable and Get, List and Head show it.
	// A failed expectation is a *Conflict (which is ErrConflict). ErrNoSpace, ErrReadOnly and ErrTooLarge leave the
	// store as it was. After ctx ends a batch may still be applied.
	Write(ctx context.Context, ops ...Op) ([]Revision, error)

	// Watch yields every change after revision from whose key starts with prefix, in revision order, in batches as
	// they were committed, until ctx ends or the loop is left. A batch is shared and must not be changed. When nothing
	// new has matched for a while, or as soon as the watch has caught up for the first time, a Batch without events
	// tells how far the watch has come. An error ends the sequence: ErrCompacted when changes after from are gone (also
	// when a slow reader has fallen too far behind), ErrFuture when from is above Head.
	Watch(ctx context.Context, prefix string, from Revision) iter.Seq2[Batch, error]

	// Head returns the revision of the newest change.
	Head(ctx context.Context) (Revision, error)

	// Compact forgets what was replaced or deleted at or before revision at. Reads below it then fail with
	// ErrCompacted. Compacting to a lower revision than before does nothing.
	Compact(ctx context.Context, at Revision) error

	// Close ends all watches and releases what the store holds. Nothing may be called after it.
	Close() error
}

// Backuper is implemented by stores that can write a consistent copy of themselves.
type Backuper interface {
	// Backup writes the state at one revision to w, in the format that Restore of the same driver reads.
	Backup(ctx context.Context, w io.Writer) (Revision, error)
}

// Entry is a key's value and when it came to be.
type Entry struct {
	Key      string
	Value    []byte
	Created  Revision // of the write that created the key after it was last absent
	Modified Revision // of the write that set this value
}

// Op is one change in a batch.
type Op struct {
	Key    string
	Value  []byte // nil deletes the key
	Expect Expect // what must hold of the key for the batch to be applied

	// Object travels with the change to the watches of this process and is never stored: the API server's decoded
	// form of Value, so that its cache need not decode what it has just encoded. Drivers pass it on in Event.Object
	// when they still have it, and may leave it out.
	Object any
}

// Expect is a condition on a key's current entry.
type Expect struct {
	kind     expectKind
	revision Revision
}

type expectKind uint8

const (
	expectAny expectKind = iota
	expectAbsent
	expectRevision
)

// Any holds always. Deleting an absent key with it takes no revision of its own and reports 0.
func Any() Expect { return Expect{} }

// Absent holds when the key does not exist.
func Absent() Expect { return Expect{kind: expectAbsent} }

// At holds when the key exists and was last modified at r.
func At(r Revision) Expect { return Expect{kind: expectRevision, revision: r} }

// Holds reports whether the expectation is met by a key last modified at current; 0 stands for an absent key.
func (e Expect) Holds(current Revision) bool {
	switch e.kind {
	case expectAbsent:
		return current == 0
	case expectRevision:
		return current != 0 && current == e.revision
	}
	return true
}

// ListOptions narrow a List.
type ListOptions struct {
	After string   // only keys greater than this one
	Limit int      // at most so many entries; 0: all
	At    Revision // as of this revision; 0: now
}

// Page is the answer of List.
type Page struct {
	Entries  []Entry
	Revision Revision // the revision that the page shows; a next page asks At it, After the last entry's key
	More     bool     // entries beyond Limit exist
}

// Event is one change.
type Event struct {
	Key      string
	Value    []byte   // nil: the key was deleted
	Created  Revision // 0 for a deletion
	Revision Revision
	Prev     []byte   // the value before; nil: the key was created
	PrevRev  Revision // when the value before was set; 0: the key was created
	Object   any      // Op.Object of the write, when it was made in this process
}

// Batch is a group of changes that were committed together.
type Batch struct {
	Events   []Event  // in revision order; none: the batch only tells progress
	Revision Revision // everything up to here has been seen
}

// What a store answers when it cannot do what was asked. Match with errors.Is.
var (
	ErrNotFound  = errors.New("key not found")
	ErrConflict  = errors.New("revision conflict")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future")
	ErrNoSpace   = errors.New("not enough free disk space")
	ErrReadOnly  = errors.New("store is read-only")
	ErrTooLarge  = errors.New("value is too large")
	ErrLocked    = errors.New("data folder is in use by another process")
	ErrClosed    = errors.New("store is closed")
)

// Conflict says which key of a batch did not meet its expectation. It is ErrConflict for errors.Is.
type Conflict struct {
	Key     string
	Current Revision // 0: the key does not exist
}

func (c *Conflict) Error() string {
	if c.Current == 0 {
		return fmt.Sprintf("%s: %v: key does not exist", c.Key, ErrConflict)
	}
	return fmt.Sprintf("%s: %v: key is at revision %d", c.Key, ErrConflict, c.Current)
}

// Is makes a Conflict match ErrConflict.
func (c *Conflict) Is(target error) bool { return target == ErrConflict }
