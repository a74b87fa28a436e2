package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// newTestStore returns a store with the defaults things/b, things/d and things/f, over a store that holds only the layout
// key.
func newTestStore(t *testing.T) *Store {
	t.Helper()
	inner := memory.New()
	t.Cleanup(func() { _ = inner.Close() })
	if _, err := inner.Write(t.Context(), store.Op{Key: "layout", Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	return withTestDefaults(inner)
}

// withTestDefaults returns a store with the defaults things/b, things/d and things/f.
func withTestDefaults(inner store.Store) *Store {
	s := newStore(inner)
	s.add(schema.GroupResource{Group: "x", Resource: "things"}, nil, func(context.Context) (map[string][]byte, error) {
		out := map[string][]byte{}
		for _, name := range []string{"d", "b", "f"} {
			out["o/x/things/"+name] = []byte("default")
		}
		return out, nil
	})
	return s
}

// list returns the names and values of the things after one, up to limit, at a revision.
func list(t *testing.T, s *Store, after string, limit int, at store.Revision) string {
	t.Helper()
	opts := store.ListOptions{Limit: limit, At: at}
	if after != "" {
		opts.After = "o/x/things/" + after
	}
	page, err := s.List(t.Context(), "o/x/things/", opts)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range page.Entries {
		out = append(out, fmt.Sprintf("%s=%s@%d", strings.TrimPrefix(e.Key, "o/x/things/"), e.Value, e.Modified))
	}
	if page.More {
		out = append(out, "more")
	}
	return strings.Join(out, " ")
}

func write(t *testing.T, s *Store, name, value string, expect store.Expect) store.Revision {
	t.Helper()
	op := store.Op{Key: "o/x/things/" + name, Expect: expect}
	if value != "" {
		op.Value = []byte(value)
	}
	revisions, err := s.Write(t.Context(), op)
	if err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	return revisions[0]
}

func TestStoreMergesDefaults(t *testing.T) {
	s := newTestStore(t)
	for _, name := range []string{"a", "c", "g"} { // revisions 2 to 4
		write(t, s, name, "stored", store.Absent())
	}
	updated := write(t, s, "d", "changed", store.At(virtualRevision))
	for _, c := range []struct {
		after string
		limit int
		at    store.Revision
		want  string
	}{
		{"", 0, 0, "a=stored@2 b=default@1 c=stored@3 d=changed@5 f=default@1 g=stored@4"},
		{"", 2, 0, "a=stored@2 b=default@1 more"},
		{"b", 2, 0, "c=stored@3 d=changed@5 more"},
		{"d", 2, 0, "f=default@1 g=stored@4"},
		{"g", 2, 0, ""},
		{"", 0, updated - 1, "a=stored@2 b=default@1 c=stored@3 d=default@1 f=default@1 g=stored@4"},
		{"", 0, 2, "a=stored@2 b=default@1 d=default@1 f=default@1"},
	} {
		if got := list(t, s, c.after, c.limit, c.at); got != c.want {
			t.Errorf("after %q, limit %d, at %d: got %q, want %q", c.after, c.limit, c.at, got, c.want)
		}
	}
}

func TestStoreWritesDefaults(t *testing.T) {
	s := newTestStore(t)
	ctx := t.Context()
	if _, err := s.Write(ctx, store.Op{Key: "o/x/things/b", Value: []byte("new"), Expect: store.Absent()}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("create a default: %v", err)
	}
	if _, err := s.Write(ctx, store.Op{Key: "o/x/things/b", Value: []byte("new"), Expect: store.At(7)}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("update another revision of a default: %v", err)
	}
	updated := write(t, s, "b", "changed", store.At(virtualRevision))
	if _, err := s.Write(ctx, store.Op{Key: "o/x/things/b", Value: []byte("late"), Expect: store.At(virtualRevision)}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("update a default twice: %v", err)
	}
	write(t, s, "b", "", store.At(updated)) // stored, then deleted
	deleted := write(t, s, "d", "", store.At(virtualRevision))
	if got := list(t, s, "", 0, 0); got != "f=default@1" {
		t.Errorf("after the deletes: %q", got)
	}
	if got := list(t, s, "", 0, updated-1); got != "b=default@1 d=default@1 f=default@1" {
		t.Errorf("before the writes: %q", got)
	}
	if _, err := s.Get(ctx, "o/x/things/d", 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get a deleted default: %v", err)
	}
	if e, err := s.Get(ctx, "o/x/things/f", 0); err != nil || string(e.Value) != "default" {
		t.Errorf("get a default: %v, %v", e, err)
	}
	again := write(t, s, "d", "again", store.Absent())
	var events []string
	for batch, err := range s.Watch(ctx, "o/x/things/", virtualRevision) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range batch.Events {
			events = append(events, fmt.Sprintf("%s: %s@%d to %s@%d", strings.TrimPrefix(ev.Key, "o/x/things/"), ev.Prev, ev.PrevRev, ev.Value, ev.Revision))
		}
		if batch.Revision >= again {
			break
		}
	}
	want := []string{
		fmt.Sprintf("b: default@1 to changed@%d", updated), fmt.Sprintf("b: changed@%d to @%d", updated, updated+1),
		fmt.Sprintf("d: default@1 to default@%d", deleted-1), fmt.Sprintf("d: default@%d to @%d", deleted-1, deleted),
		fmt.Sprintf("d: @0 to again@%d", again),
	}
	if got := strings.Join(events, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got events\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestIsStored reports a resource as stored from its first write on, and over a store that holds an object of it.
func TestIsStored(t *testing.T) {
	s := newTestStore(t)
	things := schema.GroupResource{Group: "x", Resource: "things"}
	is := func(s *Store, want bool) {
		t.Helper()
		if got, err := s.isStored(t.Context(), things); err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	is(s, false)
	list(t, s, "", 0, 0)
	is(s, false)
	write(t, s, "b", "changed", store.At(virtualRevision))
	is(s, true)
	next := newStore(s.Store)
	next.add(things, nil, func(context.Context) (map[string][]byte, error) { return nil, nil })
	is(next, true)
}

// TestStoreReplaysDeletes checks that a watch, which after a restart reads the delete of a default from storage, does not hide
// the default, which exists again.
func TestStoreReplaysDeletes(t *testing.T) {
	s := newTestStore(t)
	deleted := write(t, s, "b", "", store.At(virtualRevision))
	s = withTestDefaults(s.Store)
	const all = "b=default@1 d=default@1 f=default@1"
	if got := list(t, s, "", 0, 0); got != all {
		t.Errorf("after the restart: %q", got)
	}
	for batch, err := range s.Watch(t.Context(), "o/x/things/", virtualRevision) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.Revision >= deleted {
			break
		}
	}
	if got := list(t, s, "", 0, 0); got != all {
		t.Errorf("after the watch: %q", got)
	}
	write(t, s, "b", "changed", store.At(virtualRevision))
}

// pausedStore calls pause once, before the write of a value.
type pausedStore struct {
	store.Store
	value string
	pause func()
}

func (s *pausedStore) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	if pause := s.pause; pause != nil && string(ops[0].Value) == s.value {
		s.pause = nil
		pause()
	}
	return s.Store.Write(ctx, ops...)
}

// TestStoreUpdateDuringDelete deletes a default while the store processes an update of it. Only one of them may
// succeed: both name the default's revision.
func TestStoreUpdateDuringDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &pausedStore{Store: newTestStore(t).Store, value: "changed"}
		s := withTestDefaults(inner)
		const key = "o/x/things/b"
		deleted := make(chan error, 1)
		inner.pause = func() {
			go func() {
				_, err := s.Write(t.Context(), store.Op{Key: key, Expect: store.At(virtualRevision)})
				deleted <- err
			}()
			synctest.Wait()
		}
		_, updateErr := s.Write(t.Context(), store.Op{Key: key, Value: []byte("changed"), Expect: store.At(virtualRevision)})
		deleteErr := <-deleted
		if (updateErr == nil) == (deleteErr == nil) {
			t.Errorf("update: %v, delete: %v, want one to succeed", updateErr, deleteErr)
		}
		for _, err := range []error{updateErr, deleteErr} {
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Errorf("got %v, want a conflict", err)
			}
		}
	})
}
