package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// corruptCache is a cache of ConfigMaps, in a store that tests write to.
type corruptCache struct {
	t     *testing.T
	store store.Store
	cache *Cache
	table *Table
}

func newCorruptCache(t *testing.T, undecoded bool) *corruptCache {
	s := memory.New()
	c, err := New(t.Context(), s, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	row := objects.Row(core.ConfigMaps)
	row.Undecoded = undecoded
	return &corruptCache{t, s, c, c.Add(&row)}
}

func (c *corruptCache) run() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.cache.Run(ctx) }()
	c.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
}

// write stores a value (nil: deletes it), and returns when the table shows the change.
func (c *corruptCache) write(name string, value []byte) store.Revision {
	c.t.Helper()
	revs, err := c.store.Write(c.t.Context(), store.Op{Key: c.table.prefix + "n/" + name, Value: value})
	if err != nil {
		c.t.Fatal(err)
	}
	return revs[0]
}

func (c *corruptCache) value(name string) []byte {
	c.t.Helper()
	value, err := Encode(c.table.resource.Names.GVK(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}})
	if err != nil {
		c.t.Fatal(err)
	}
	return value
}

func (c *corruptCache) names(items []*Item) string {
	var out []string
	for _, i := range items {
		out = append(out, i.Key.Name)
	}
	return strings.Join(out, " ")
}

func (c *corruptCache) corrupt() string {
	var out []string
	for _, b := range c.cache.Corrupt() {
		out = append(out, b.Key.Name)
	}
	return strings.Join(out, " ")
}

// TestCorrupt stores values that cannot be decoded, some before the table is filled and some later.
func TestCorrupt(t *testing.T) {
	for _, undecoded := range []bool{false, true} {
		t.Run(fmt.Sprint("undecoded ", undecoded), func(t *testing.T) {
			c := newCorruptCache(t, undecoded)
			c.write("a", c.value("a"))
			c.write("b", []byte("garbage"))
			c.write("c", c.value("other")) // the object of another key
			first := c.write("d", c.value("d"))
			c.run()
			list := func() string {
				page, err := c.table.List(t.Context(), &Selector{}, 0)
				if err != nil {
					t.Fatal(err)
				}
				return c.names(page.Items)
			}
			if got := list() + "|" + c.corrupt(); got != "a d|b c" {
				t.Errorf("filled: got %s", got)
			}
			_, _, err := c.table.Get(t.Context(), objects.Key{Namespace: "n", Name: "b"})
			var bad *Corrupt
			if !errors.As(err, &bad) || bad.StoreKey != "o/core/configmaps/n/b" {
				t.Errorf("get: got %v", err)
			}
			if err := c.cache.Wait(t.Context(), c.write("a", []byte("{"))); err != nil {
				t.Fatal(err)
			}
			if err := c.cache.Wait(t.Context(), c.write("c", c.value("c"))); err != nil {
				t.Fatal(err)
			}
			if got := list() + "|" + c.corrupt(); got != "c d|a b" {
				t.Errorf("changed: got %s", got)
			}
			old, err := c.table.ListAt(t.Context(), &Selector{}, "", 0, first)
			if err != nil || c.names(old.Items) != "a d" {
				t.Errorf("at an old revision: got %s, %v", c.names(old.Items), err)
			}
			if err := c.cache.Wait(t.Context(), c.write("a", nil)); err != nil {
				t.Fatal(err)
			}
			if got := list() + "|" + c.corrupt(); got != "c d|b" {
				t.Errorf("deleted: got %s", got)
			}
		})
	}
}

// TestWatchOfCorrupt reads the changes from the log, and from the store. A watch shows an object whose value becomes
// damaged as deleted. The deletion of a damaged value ends the watch, since its client may still have the undamaged
// object.
func TestWatchOfCorrupt(t *testing.T) {
	for _, source := range []string{"log", "lane", "store"} {
		t.Run(source, func(t *testing.T) {
			c := newCorruptCache(t, false)
			from := c.write("a", c.value("a"))
			c.run()
			if _, err := c.table.List(t.Context(), &Selector{}, 0); err != nil { // fills the table
				t.Fatal(err)
			}
			c.write("a", []byte("garbage"))
			c.write("b", c.value("b"))
			last := c.write("a", nil)
			if err := c.cache.Wait(t.Context(), last); err != nil {
				t.Fatal(err)
			}
			o := WatchOptions{From: from, Selector: Selector{Namespace: "n"}}
			if source == "store" {
				c.cache.Trim(last)
			}
			want := []string{"DELETED a", "ADDED b", store.ErrCompacted.Error()}
			if source == "lane" {
				o.Fields = fields.OneTermEqualSelector("metadata.name", "a")
				want = slices.Delete(want, 1, 2)
			}
			var got []string
			for events, err := range c.table.Watch(t.Context(), o) {
				for _, e := range events {
					got = append(got, string(e.Type)+" "+e.Item.Key.Name)
				}
				if err != nil {
					got = append(got, err.Error())
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			o.From = last
			next := c.write("a", c.value("a"))
			for events, err := range c.table.Watch(ctx, o) {
				if err != nil || events[0].Type != watch.Added || events[0].Revision != next {
					t.Errorf("a watch after the deletion: got %v, %v", events, err)
				}
				break
			}
		})
	}
}

// TestCheck scans a store for values that cannot be decoded.
func TestCheck(t *testing.T) {
	c := newCorruptCache(t, false)
	c.write("a", c.value("a"))
	c.write("b", []byte("garbage"))
	for key, value := range map[string]string{
		"o/example.com/widgets/n/good": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"good"}}`,
		"o/example.com/widgets/n/bad":  `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":`,
		"o/example.com/widgets/n/list": `[]`,
	} {
		if _, err := c.store.Write(t.Context(), store.Op{Key: key, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Check(t.Context(), c.store, []objects.Resource{*c.table.resource})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range found {
		got = append(got, b.StoreKey)
	}
	if want := []string{"o/core/configmaps/n/b", "o/example.com/widgets/n/bad", "o/example.com/widgets/n/list"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
