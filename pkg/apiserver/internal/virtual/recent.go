package virtual

import (
	"encoding/json"
	"strconv"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// entry is one object. It is kept as JSON, since there are many entries and few are read.
type entry struct {
	seq    store.Revision
	row    *objects.Resource
	key    objects.Key
	labels labels.Set
	json   []byte
}

// labelBytes is the size of a map of up to eight labels without their text.
const labelBytes = 320

// size returns the bytes that an entry and its place in the index take in memory.
func (e *entry) size() int {
	n := int(unsafe.Sizeof(*e)) + cap(e.json) + len(e.key.Namespace) + len(e.key.Name)
	n += 2 * int(unsafe.Sizeof(entryKey{})) // the index is half full on average
	if len(e.labels) > 0 {
		n += labelBytes
		for k, v := range e.labels {
			n += len(k) + len(v)
		}
	}
	return n
}

// item returns the entry as an item of the API.
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

type place = changelog.Place[*entry]

// recent has the newest entries of all resources, up to a number of bytes.
type recent struct {
	budget *changelog.Budget

	mu    sync.Mutex // held while an entry is added
	log   *changelog.Log[*entry]
	index map[entryKey]*entry // of the entries in the log
}

func newRecent(limit int) *recent {
	r := &recent{budget: changelog.NewBudget(limit), index: map[entryKey]*entry{}}
	r.begin(0)
	return r
}

// begin starts a new log after sequence number seq.
func (r *recent) begin(seq store.Revision) {
	r.log = changelog.New(r.budget, changelog.Accounting[*entry]{
		Size:    func(e **entry) int { return (*e).size() },
		Dropped: func(e **entry) { delete(r.index, entryKey{(*e).row.Names.Plural, (*e).key}) }, // called by put, which holds mu
	}, seq)
}

// add gives an object the next sequence number and adds its JSON. If the name exists already, add returns the existing
// entry and false.
func (r *recent) add(row *objects.Resource, obj objects.Object) (*entry, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if old, ok := r.index[entryKey{row.Names.Plural, key}]; ok {
		return old, false, nil
	}
	seq := r.log.End().Revision + 1
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

// restore adds an entry of an earlier process, with its number. It ignores an entry that is not newer than the last
// one.
func (r *recent) restore(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.log.End().Revision
	if e.seq <= last {
		return
	}
	if last == 0 {
		r.begin(e.seq - 1) // entries before the first restored one are gone
	}
	r.put(e)
}

// put appends e to the log, which drops the oldest entries beyond its budget and wakes the watches.
func (r *recent) put(e *entry) {
	r.index[entryKey{e.row.Names.Plural, e.key}] = e
	r.log.Append(e.seq, []*entry{e})
}

// find returns the entry of a name.
func (r *recent) find(row *objects.Resource, key objects.Key) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.index[entryKey{row.Names.Plural, key}]
	return e, ok
}

// since returns the place after number seq. ok is false when entries after seq were dropped, or when seq is in the
// future.
func (r *recent) since(seq store.Revision) (p *place, ok bool) {
	if seq > r.log.End().Revision {
		return nil, false
	}
	return r.log.Since(seq)
}

// after returns the entries with a number above seq that have not been dropped, and the place behind them.
func (r *recent) after(seq store.Revision) (entries []*entry, p *place) {
	p, ok := r.log.Since(seq)
	for {
		if !ok {
			p = r.log.Start()
		}
		more, end, err := gather(p)
		if entries = append(entries, more...); err == nil {
			return entries, end
		}
		ok = false // dropped meanwhile: continue with the oldest entry
	}
}

// gather returns the entries after p and the place after them. The error is store.ErrCompacted when the next entry was
// dropped.
func gather(p *place) (entries []*entry, end *place, err error) {
	for {
		b, err := p.Next()
		if b == nil {
			return entries, p, err
		}
		entries = append(entries, b.Changes...)
		p = b.After
	}
}
