package cache

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// cluster is a cache over a store in memory, with a table of ConfigMaps.
type cluster struct {
	*Cache
	t     *testing.T
	clock *testclock.FakeClock
	row   objects.Resource
	table *Table
}

// newCluster returns a cache that runs until the test ends. Its logs hold up to limit bytes.
func newCluster(t *testing.T, limit int) *cluster {
	t.Helper()
	clk := testclock.NewFakeClock(time.Now())
	c, err := New(t.Context(), memory.New(), clk)
	if err != nil {
		t.Fatal(err)
	}
	c.budget = changelog.NewBudget(limit)
	out := &cluster{Cache: c, t: t, clock: clk, row: objects.Row(core.ConfigMaps)}
	out.table = c.Add(&out.row)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return out
}

// write stores a ConfigMap as the verbs do, and returns the item of the response.
func (c *cluster) write(name, value string) *Item {
	c.t.Helper()
	return c.writeTo(c.table, name, value)
}

func (c *cluster) writeTo(table *Table, name, value string) *Item {
	c.t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}, Data: map[string]string{"k": value}}
	gvk := table.resource.Names.GVK()
	obj.SetGroupVersionKind(gvk)
	b, err := Encode(gvk, obj)
	if err != nil {
		c.t.Fatal(err)
	}
	key := objects.Key{Namespace: "n", Name: name}
	p := table.Pending(obj)
	revs, err := c.store.Write(c.t.Context(), store.Op{Key: table.StoreKey(key), Value: b, Object: p.Ref()})
	if err != nil {
		c.t.Fatal(err)
	}
	i, err := c.Committed(c.t.Context(), key, p, revs[0])
	if err != nil {
		c.t.Fatal(err)
	}
	return i
}

// TestSlowWatch stalls a reader until the log has dropped its next changes. It still gets every change once, in order,
// and no bookmark is ahead of the changes before it.
func TestSlowWatch(t *testing.T) {
	c := newCluster(t, 4<<10)
	from := c.write("first", "v").Revision
	c.write("second", "v")
	const writes = 50
	seen, got, i := from, 0, 0
	for events, err := range c.table.Watch(t.Context(), WatchOptions{From: from, Bookmarks: time.Second}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if ev.Type == watch.Bookmark {
				t.Fatalf("bookmark at %d while changes were not shown", ev.Revision)
			}
			if got++; ev.Revision != seen+1 {
				t.Fatalf("got revision %d after %d", ev.Revision, seen)
			}
			seen = ev.Revision
		}
		for ; i < writes; i++ {
			c.write(fmt.Sprint("m", i), "v")
			c.clock.Step(time.Second)
		}
		if got == writes+1 {
			break
		}
		if got == 0 || i < writes {
			t.Fatal("the test tests nothing")
		}
	}
}

// TestReplay watches from a revision that the log has dropped. Replay is called before the store is read, and its done when the reader has
// taken what was read. A watch from the log calls neither.
func TestReplay(t *testing.T) {
	c := newCluster(t, 4<<10)
	from := c.write("first", "v").Revision
	if _, err := c.table.All(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	const writes = 50
	for i := range writes {
		c.write(fmt.Sprint("m", i), "v")
	}
	begun, ended, got := 0, 0, 0
	replay := func(context.Context) (func(), error) {
		begun++
		return func() { ended++ }, nil
	}
	for events, err := range c.table.Watch(t.Context(), WatchOptions{From: from, Replay: replay}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case got == 0 && (begun != 1 || ended != 0):
			t.Errorf("%d replays have begun and %d have ended while the first change is read", begun, ended)
		case got == writes && (begun != 1 || ended != 1):
			t.Errorf("%d replays have begun and %d have ended when new changes are read", begun, ended)
		}
		if got += len(events); got > writes {
			break
		}
		if got == writes {
			c.write("new", "v")
		}
	}
	for range c.table.Watch(t.Context(), WatchOptions{From: c.Revision() - 1, Replay: replay}) {
		break
	}
	if begun != 1 {
		t.Error("a watch from the log has called Replay")
	}
}

// TestBookmarkAfterDroppedChanges requests a bookmark when the log has dropped the next changes. This happens when the
// timer fires at the moment of the drop.
func TestBookmarkAfterDroppedChanges(t *testing.T) {
	c := newCluster(t, 4<<10)
	c.write("first", "v")
	if _, err := c.table.All(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	w := &watcher{table: c.table, yield: func(events []Event, _ error) bool {
		t.Errorf("got %+v, want nothing before the changes that were dropped", events)
		return true
	}}
	w.at = c.table.log.End()
	for i := range 50 {
		c.write(fmt.Sprint("m", i), "v")
	}
	if _, err := w.at.Next(); err == nil {
		t.Fatal("nothing was dropped: the test tests nothing")
	}
	w.bookmark()
}

func TestBookmarks(t *testing.T) {
	c := newCluster(t, logBytes)
	head := c.write("first", "v").Revision
	go func() {
		for !c.clock.HasWaiters() {
			if t.Context().Err() != nil {
				return
			}
		}
		c.clock.Step(time.Second)
	}()
	for events, err := range c.table.Watch(t.Context(), WatchOptions{Now: true, Bookmarks: time.Second}) {
		if err != nil || len(events) != 1 || events[0].Type != watch.Bookmark || events[0].Revision != head {
			t.Errorf("got %+v, %v, want a bookmark at %d", events, err, head)
		}
		break
	}
}

// TestWatchBeginsAtTheCall changes an object between the call and the first iteration, as a client does that has read the
// response's header before the server reads the table.
func TestWatchBeginsAtTheCall(t *testing.T) {
	for name, c := range map[string]struct {
		options WatchOptions
		want    []string
	}{
		"with the current objects": {WatchOptions{State: true}, []string{"ADDED a=1", "MODIFIED a=2", "ADDED b=1"}},
		"with the next change":     {WatchOptions{Now: true}, []string{"MODIFIED a=2", "ADDED b=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(t, logBytes)
			cl.write("a", "1")
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			changes := cl.table.Watch(ctx, c.options)
			cl.write("a", "2")
			cl.write("b", "1")
			var got []string
			for events, err := range changes {
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range events {
					obj, err := ev.Item.Object()
					if err != nil {
						t.Fatal(err)
					}
					m := obj.(*corev1.ConfigMap)
					got = append(got, fmt.Sprintf("%s %s=%s", ev.Type, m.Name, m.Data["k"]))
				}
				if len(got) >= len(c.want) || got[len(got)-1] == "ADDED b=1" {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestLogIsBounded updates one large object until its versions exceed the bound many times.
func TestLogIsBounded(t *testing.T) {
	const limit = 1 << 20
	c := newCluster(t, limit)
	if _, err := c.table.All(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 100<<10)
	for i := range 30 {
		c.write("x", fmt.Sprint(i, string(large)))
	}
	if used := c.budget.Used(); used > limit || used < limit/2 {
		t.Errorf("the log holds %d bytes, want up to %d", used, limit)
	}
	c.Trim(c.Revision())
	if used := c.budget.Used(); used != 0 {
		t.Errorf("the trimmed log holds %d bytes", used)
	}
}
