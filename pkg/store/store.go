// Package store owns the contract of minikctl's revisioned state: a key-value map in which every change has its own
// revision. Past revisions can be read, and the changes after a revision can be watched. Clients see the revision as
// resourceVersion.
//
// Only the API server uses a store. Drivers (memory, badger, later etcd) are the packages below this one, and each
// passes the suite in storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Revision numbers the changes of a store, from 1. Revisions increase, possibly with gaps. 0 means "none" or "the
// newest".
type Revision uint64

// Store is a revisioned map. Implementations are safe for concurrent use. Keys are non-empty and of printable ASCII
// with '/' between their parts. Values handed out are shared and must not be changed.
type Store interface {
	// Get returns the entry of key at revision at (0: the newest). The error is ErrNotFound when the key was absent,
	// ErrCompacted when at is below the compacted revision, ErrFuture when it is above Head.
	Get(ctx context.Context, key string, at Revision) (Entry, error)

	// List returns the entries with keys that start with prefix, in key order, at one revision. It has the errors of
	// Get, except that an empty list is not an error.
	List(ctx context.Context, prefix string, opts ListOptions) (Page, error)

	// Write applies ops together: all of them or, when the Expect of one does not hold, none. Each op gets its own
	// revision, in order; a batch must not name a key twice. When Write returns, the batch is durable and Get, List and
	// Head show it. A failed expectation is a *Conflict (which is ErrConflict). ErrNoSpace, ErrReadOnly and ErrTooLarge
	// leave the store unchanged. A batch may still be applied after ctx has ended. A batch without ops changes nothing: its
	// error shows whether the store takes writes.
	Write(ctx context.Context, ops ...Op) ([]Revision, error)

	// Watch yields each change after revision from of the keys that start with prefix, in revision order, until ctx ends
	// or the loop is left. Recent changes come in batches as they were committed; older ones are read from storage, in
	// batches of about a quarter of a MiB. A batch is shared and must not be changed. A batch without events shows how
	// far the watch has come: it follows when the watch has caught up, and when nothing new has matched for a while.
	//
	// An error ends the sequence. It is ErrCompacted when changes after from are gone, or when a new list is cheaper than
	// the changes that would have to be read from storage (also later, when the reader is too slow), and ErrFuture when
	// from is above Head.
	Watch(ctx context.Context, prefix string, from Revision) iter.Seq2[Batch, error]

	// Head returns the revision of the newest change.
	Head(ctx context.Context) (Revision, error)

	// Compact removes the values that were replaced or deleted at or before revision at. Reads below it then fail with
	// ErrCompacted. Compacting to a lower revision than before has no effect. A driver may also compact on its own to
	// bound its memory.
	Compact(ctx context.Context, at Revision) error

	// Close ends all watches with ErrClosed and releases what the store holds. No method may be called after it.
	Close() error
}

// Entry is the value of a key and its revisions.
type Entry struct {
	Key      string
	Value    []byte
	Created  Revision // revision of the write that created the key after it was last absent
	Modified Revision // revision of the write that set this value
}

// Op is one change in a batch.
type Op struct {
	Key    string
	Value  []byte // nil deletes the key
	Expect Expect // condition on the key; the batch is applied when the conditions of all its ops hold

	// Object travels with the change to the watches of this process and is never stored. The API server passes a weak
	// pointer to the decoded form of Value, so that its cache need not decode what it has just encoded. A driver passes
	// Object on in Event.Object for recent changes, or leaves it out.
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

// Any always holds. A delete of an absent key with it gets no revision, and Write returns 0 for the op.
func Any() Expect { return Expect{} }

// Absent holds when the key does not exist.
func Absent() Expect { return Expect{kind: expectAbsent} }

// At holds when the key exists and was last modified at r.
func At(r Revision) Expect { return Expect{kind: expectRevision, revision: r} }

// Holds reports whether the expectation is met by a key that was last modified at current, or is absent (0).
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
	Limit int      // maximum number of entries; 0: all
	Bytes int      // the page ends with the entry whose value takes the values to so many bytes; 0: no bound
	At    Revision // the revision to list; 0: the newest
	Keys  bool     // only Key and Modified of the entries
}

// Full reports whether a page with so many entries, whose values have so many bytes, takes no further entry.
func (o ListOptions) Full(entries, bytes int) bool {
	return o.Limit > 0 && entries == o.Limit || o.Bytes > 0 && bytes >= o.Bytes
}

// Page is the result of List.
type Page struct {
	Entries  []Entry
	Revision Revision // the revision that was listed; the next page is At this revision, After the key of the last entry
	More     bool     // entries behind the page exist
}

// Event is one change.
type Event struct {
	Key      string
	Value    []byte   // nil: the key was deleted
	Created  Revision // 0 for a deletion
	Revision Revision
	Prev     []byte   // the value before; nil: the key was created
	PrevRev  Revision // revision of the value before; 0: the key was created
	Object   any      // Op.Object of a recent write of this process, or nil
}

// Batch is a group of changes that were committed together.
type Batch struct {
	Events   []Event  // in revision order; empty if only Revision is new
	Revision Revision // the watch has yielded every change up to here
}

// MaxValue is the size of the largest value, the same as etcd's limit for a request.
const MaxValue = 1536 << 10

// MaxKey is the size of the longest key. Names of RBAC objects have no limit in Kubernetes, and Badger takes 65,000 bytes.
const MaxKey = 64_000

// CheckSize returns ErrTooLarge if a key or a value of ops is larger than MaxKey and MaxValue.
func CheckSize(ops []Op) error {
	for _, op := range ops {
		if len(op.Key) > MaxKey || len(op.Value) > MaxValue {
			return fmt.Errorf("write %.100s: %w", op.Key, ErrTooLarge)
		}
	}
	return nil
}

// Errors of a store. Match them with errors.Is.
var (
	ErrNotFound  = errors.New("key not found")
	ErrConflict  = errors.New("revision conflict")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future")
	ErrNoSpace   = errors.New("not enough free disk space")
	ErrReadOnly  = errors.New("store is read-only")
	ErrTooLarge  = errors.New("key or value is too large")
	ErrLocked    = errors.New("data directory is in use by another process")
	ErrClosed    = errors.New("store is closed")
	ErrDamaged   = errors.New("store is damaged")
)

// Conflict is the error of a batch with an expectation that does not hold. It is ErrConflict for errors.Is.
type Conflict struct {
	Key     string   // the first key with an expectation that does not hold
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
