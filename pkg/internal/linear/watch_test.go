package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// The objects that are written before and after all others.
const (
	firstName = "first"
	lastName  = "last"
)

// changes are the changes that the watches have received. The first watch that receives a change adds it, and the others compare.
type changes struct {
	from uint64 // the revision from which the watches begin

	mu   sync.Mutex
	all  []change
	done int           // watches that have seen the last change
	want int           // how many watches will
	last chan struct{} // closed once all have seen it
}

func (l *changes) expect(watches int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = watches
}

func (l *changes) seenLast() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// see takes note of the n-th change that a watch has seen.
func (l *changes) see(n int, c change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case n > 0 && c.revision <= l.all[n-1].revision:
		return fmt.Errorf("change %d is %v, after %v", n, c, l.all[n-1])
	case n == len(l.all):
		l.all = append(l.all, c)
	case l.all[n] != c:
		return fmt.Errorf("change %d is %v, but another watch has seen %v", n, c, l.all[n])
	}
	if c.name == lastName {
		if l.done++; l.done == l.want {
			close(l.last)
		}
	}
	return nil
}

// compare compares the changes with the acknowledged writes and with a list at the end.
func (l *changes) compare(written []change, list []object) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	seen, now := map[uint64]change{}, map[string]change{}
	for _, c := range l.all {
		seen[c.revision], now[c.name] = c, c
	}
	for _, w := range written {
		if seen[w.revision] != w {
			errs = append(errs, fmt.Errorf("%v was acknowledged, but the watches have seen %v", w, seen[w.revision]))
		}
	}
	delete(now, lastName) // the list was made before
	maps.DeleteFunc(now, func(_ string, c change) bool { return c.value == "" })
	listed := map[string]change{}
	for _, o := range list {
		if o.Metadata.Name == firstName {
			continue
		}
		listed[o.Metadata.Name] = change{revision(o), o.Metadata.Name, o.Data["value"]}
	}
	if !maps.Equal(now, listed) {
		errs = append(errs, fmt.Errorf("the list has %v, but the watches have seen %v", listed, now))
	}
	return errors.Join(errs[:min(5, len(errs))]...)
}

func revision(o object) uint64 {
	n, _ := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64) // 0 is no revision of an object
	return n
}

// watch watches all ConfigMaps from the first object on. Each time the server is killed it continues from the last change that it
// has received.
func (c *cluster) watch(ctx context.Context, i int, l *changes) {
	hc := c.client()
	defer hc.CloseIdleConnections()
	seen, from := 0, l.from
	for {
		up := c.ready()
		select {
		case <-up:
		case <-ctx.Done():
			return
		}
		err := c.follow(ctx, hc, from, func(ch change) error {
			err := l.see(seen, ch)
			seen, from = seen+1, ch.revision
			return err
		})
		if ctx.Err() == nil && (c.ready() == up || !errors.Is(err, errCut)) {
			c.t.Errorf("watch %d: %v", i, err)
			return
		}
	}
}

// errCut means that the connection of a watch has ended.
var errCut = errors.New("the connection has ended")

// follow reads changes until the connection ends.
func (c *cluster) follow(ctx context.Context, hc *http.Client, from uint64, see func(change) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?watch=true&resourceVersion=%d", configMaps, from), nil)
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return errors.Join(errCut, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body) // for the message
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	for in := json.NewDecoder(resp.Body); ; {
		var ev struct {
			Type   string
			Object object
		}
		if err := in.Decode(&ev); err != nil {
			return errors.Join(errCut, err)
		}
		ch := change{revision(ev.Object), ev.Object.Metadata.Name, ev.Object.Data["value"]}
		switch ev.Type {
		case "ADDED", "MODIFIED":
		case "DELETED":
			ch.value = ""
		default:
			return fmt.Errorf("%s: %s", ev.Type, ev.Object.Message)
		}
		if err := see(ch); err != nil {
			return err
		}
	}
}
