package virtual

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// entry is one object. It is kept as JSON, and compressed once it is saved, since there are many entries and few are read.
type entry struct {
	seq    store.Revision
	row    *objects.Resource
	key    objects.Key
	labels labels.Set
	length int // of the JSON
	text   atomic.Pointer[text]
}

// labelBytes is the size of a map of up to eight labels without their text.
const labelBytes = 320

// size returns the bytes that an entry and its place in the index take in memory before its JSON is compressed.
func (e *entry) size() int {
	n := int(unsafe.Sizeof(*e)) + e.length + len(e.key.Namespace) + len(e.key.Name)
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
	b, err := e.text.Load().json(e.length)
	return cache.NewEncoded(e.key, e.seq, b, func() (objects.Object, error) {
		if err != nil {
			return nil, err
		}
		obj := e.row.New()
		if err := json.Unmarshal(b, obj); err != nil {
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
	batch  int // bytes of entries that are added to the log, and dropped, together

	mu    sync.Mutex // held while an entry is added
	log   *changelog.Log[*entry]
	index map[entryKey]*entry // of the entries in the log
	block []byte              // the rest of the block from which the next JSON is taken
	spare []entry             // likewise the entries
	buf   bytes.Buffer        // encodes
}

// Entries are taken from blocks. Entries are dropped in the order in which they were added, so a block is freed as a
// whole. Single allocations would be spread over the heap of a busy server, and keep its pages when it is idle again.
const (
	blockBytes   = 64 << 10
	blockEntries = 64
)

// copy returns a copy of b in a block.
func (r *recent) copy(b []byte) []byte {
	if len(b) > blockBytes/4 {
		return bytes.Clone(b)
	}
	if len(r.block) < len(b) {
		r.block = make([]byte, blockBytes)
	}
	out := r.block[:len(b):len(b)]
	r.block = r.block[len(b):]
	copy(out, b)
	return out
}

// encode returns the JSON of obj in a block.
func (r *recent) encode(obj objects.Object) ([]byte, error) {
	r.buf.Reset()
	if err := json.NewEncoder(&r.buf).Encode(obj); err != nil {
		return nil, err
	}
	return r.copy(bytes.TrimSuffix(r.buf.Bytes(), []byte("\n"))), nil
}

// entry returns an entry in a block.
func (r *recent) entry(seq store.Revision, row *objects.Resource, key objects.Key, set labels.Set, json []byte) *entry {
	if len(r.spare) == 0 {
		r.spare = make([]entry, blockEntries)
	}
	out := &r.spare[0]
	r.spare = r.spare[1:]
	out.seq, out.row, out.key, out.labels, out.length = seq, row, key, set, len(json)
	out.text.Store(&text{plain: json})
	return out
}

// compact moves the entries together in the heap: their names, texts and places in the log are spread over that of a busy server.
func (r *recent) compact() {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries, _, _ := gather(r.log.Start()) // no entry is dropped under mu
	size := 0
	for _, e := range entries {
		size += len(e.key.Namespace) + len(e.key.Name)
	}
	var names strings.Builder
	names.Grow(size)
	for _, e := range entries {
		names.WriteString(e.key.Namespace)
		names.WriteString(e.key.Name)
	}
	all := names.String()
	take := func(n int) string {
		out := all[:n]
		all = all[n:]
		return out
	}
	moved, texts := make([]entry, len(entries)), make([]text, len(entries))
	blocks := map[*packed]*packed{}
	index := make(map[entryKey]*entry, len(entries))
	r.block = nil
	next := 0
	r.log.Compact(func(e *entry) *entry {
		to, t := &moved[next], &texts[next]
		next++
		*t = *e.text.Load()
		if t.block == nil {
			t.plain = r.copy(t.plain)
		} else if t.block = blocks[t.block]; t.block == nil {
			t.block = &packed{bytes: r.copy(e.text.Load().block.bytes)}
			blocks[e.text.Load().block] = t.block
		}
		to.seq, to.row, to.labels, to.length = e.seq, e.row, e.labels, e.length
		to.key = objects.Key{Namespace: take(len(e.key.Namespace)), Name: take(len(e.key.Name))}
		to.text.Store(t)
		index[entryKey{to.row.Names.Plural, to.key}] = to
		return to
	})
	r.index = index
}

func newRecent(limit int) *recent {
	r := &recent{budget: changelog.NewBudget(limit), batch: limit / 16, index: map[entryKey]*entry{}}
	r.begin(0)
	return r
}

// begin starts a new log after sequence number seq.
func (r *recent) begin(seq store.Revision) {
	r.log = changelog.New(r.budget, changelog.Accounting[*entry]{
		Size:    func(e **entry) int { return (*e).size() },
		Dropped: func(e **entry) { delete(r.index, entryKey{(*e).row.Names.Plural, (*e).key}) }, // called by Append, under mu
	}, seq)
}

// add gives each object the next sequence number and adds its JSON. It returns the entries, nil for an object whose name
// exists already or that can't be encoded, which is the error.
func (r *recent) add(row *objects.Resource, objs ...objects.Object) ([]*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*entry, len(objs))
	var added []*entry // not in the log yet
	seq, bytes := r.log.End().Revision, 0
	var errs []error
	for i, obj := range objs {
		key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
		if _, ok := r.index[entryKey{row.Names.Plural, key}]; ok {
			continue
		}
		obj.SetResourceVersion(strconv.FormatUint(uint64(seq+1), 10))
		obj.GetObjectKind().SetGroupVersionKind(row.Names.GVK())
		b, err := r.encode(obj)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seq++
		out[i] = r.entry(seq, row, key, obj.GetLabels(), b)
		r.index[entryKey{row.Names.Plural, key}] = out[i]
		added = append(added, out[i])
		if bytes += out[i].size(); bytes > r.batch {
			r.log.Append(seq, added)
			added, bytes = nil, 0
		}
	}
	if len(added) > 0 {
		r.log.Append(seq, added)
	}
	return out, errors.Join(errs...)
}

// restore adds an entry of an earlier process, with its number. It ignores an entry that is not newer than the last
// one.
func (r *recent) restore(seq store.Revision, row *objects.Resource, key objects.Key, set labels.Set, json []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.log.End().Revision
	if seq <= last {
		return
	}
	if last == 0 {
		r.begin(seq - 1) // entries before the first restored one are gone
	}
	kept := r.entry(seq, row, key, set, r.copy(json))
	r.index[entryKey{row.Names.Plural, key}] = kept
	r.log.Append(seq, []*entry{kept})
}

// find returns the entry of a name.
func (r *recent) find(row *objects.Resource, key objects.Key) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.index[entryKey{row.Names.Plural, key}]
	return e, ok
}

// since returns the place of the batch that has the entry after number seq, which may begin with earlier entries. ok is false when entries
// after seq were dropped, or when seq is in the future.
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
		if entries = append(entries, newer(more, seq)...); err == nil {
			return entries, end
		}
		ok = false // dropped meanwhile: continue with the oldest entry
	}
}

// newer returns the entries with a number above seq. Entries are added to the log in batches, and a place is before or behind a whole one.
func newer(entries []*entry, seq store.Revision) []*entry {
	i := slices.IndexFunc(entries, func(e *entry) bool { return e.seq > seq })
	if i < 0 {
		return nil
	}
	return entries[i:]
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
