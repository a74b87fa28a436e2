package virtual

import (
	"encoding/json"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// entry is one object, kept as JSON: there are many of them and few are ever looked at.
type entry struct {
	seq    store.Revision
	row    *objects.Resource
	key    objects.Key
	labels labels.Set
	json   []byte
}

// size is what an entry costs in memory, roughly.
func (e *entry) size() int { return len(e.json) + 256 }

// item returns the entry as the API's item.
func (e *entry) item() *cache.Item {
	return cache.NewEncoded(e.key, e.seq, e.json, func() (objects.Object, error) {
		obj := e.row.New()
		if err := json.Unmarshal(e.json, obj); err != nil {
			return nil, err
		}
		return obj, nil
	})
}

type entryKey struct {
	plural string
	key    objects.Key
}

// ring holds the newest entries, of all resources together, up to a number of bytes.
type ring struct {
	most int // bytes

	mu      sync.Mutex
	entries []*entry // in the order of seq
	index   map[entryKey]*entry
	bytes   int
	last    store.Revision // of the newest entry ever
	lost    store.Revision // of the newest entry that is no longer here
	changed chan struct{}  // closed by the next entry
}

func newRing(most int) *ring {
	return &ring{most: most, index: map[entryKey]*entry{}, changed: make(chan struct{})}
}

// add appends an object, which finish gives its sequence number, and returns the JSON. When there is already one of that
// name, nothing is added.
func (r *ring) add(row *objects.Resource, obj objects.Object) (*entry, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if old, ok := r.index[entryKey{row.Names.Plural, key}]; ok {
		return old, false, nil
	}
	seq := r.last + 1
	obj.SetResourceVersion(strconv.FormatUint(uint64(seq), 10))
	obj.GetObjectKind().SetGroupVersionKind(row.Names.GVK())
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, false, err
	}
	e := &entry{seq: seq, row: row, key: key, labels: obj.GetLabels(), json: b}
	r.put(e)
	return e, true, nil
}

// put appends e, forgets the oldest beyond the bytes, and wakes the watches.
func (r *ring) put(e *entry) {
	r.entries = append(r.entries, e)
	r.index[entryKey{e.row.Names.Plural, e.key}] = e
	r.bytes += e.size()
	r.last = e.seq
	gone := 0
	for r.bytes > r.most && gone < len(r.entries)-1 {
		old := r.entries[gone]
		r.bytes -= old.size()
		r.lost = old.seq
		delete(r.index, entryKey{old.row.Names.Plural, old.key})
		r.entries[gone] = nil
		gone++
	}
	r.entries = r.entries[gone:]
	close(r.changed)
	r.changed = make(chan struct{})
}

// find returns the entry of a name.
func (r *ring) find(row *objects.Resource, key objects.Key) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.index[entryKey{row.Names.Plural, key}]
	return e, ok
}

// after returns the entries with a number above seq, how far they go, whether some above seq are lost, and a channel
// that is closed when there are more.
func (r *ring) after(seq store.Revision) (entries []*entry, last store.Revision, lost bool, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lo, hi := 0, len(r.entries)
	for lo < hi {
		mid := (lo + hi) / 2
		if r.entries[mid].seq > seq {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return append([]*entry(nil), r.entries[lo:]...), r.last, seq < r.lost, r.changed
}
