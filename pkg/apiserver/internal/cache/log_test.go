package cache

import (
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
)

func appendTo(l *log, revs ...store.Revision) {
	for _, rev := range revs {
		l.append([]event{{revision: rev, now: &Item{size: 1000}}})
	}
}

// after returns the revisions that a reader at rev has before it; ok is false when the log does not know.
func after(l *log, rev store.Revision) (out []store.Revision, ok bool) {
	s := l.find(rev)
	if s == nil {
		return nil, false
	}
	for s = s.next.Load(); s != nil; s = s.next.Load() {
		out = append(out, s.revision)
	}
	return out, true
}

func TestLog(t *testing.T) {
	l := newLog(10, 5*(1000+eventSize))
	appendTo(&l, 12, 13, 15)
	for rev, want := range map[store.Revision]int{10: 3, 11: 3, 12: 2, 14: 1, 15: 0, 99: 0} {
		if got, ok := after(&l, rev); !ok || len(got) != want {
			t.Errorf("after %d: %v %v, want %d", rev, got, ok, want)
		}
	}
	if _, ok := after(&l, 9); ok {
		t.Error("the log claims to know what it has not seen")
	}
	slow := l.find(10)
	appendTo(&l, 20, 21, 22, 23)
	if l.size > l.limit {
		t.Errorf("%d bytes are kept, the limit is %d", l.size, l.limit)
	}
	if _, ok := after(&l, 12); ok {
		t.Error("what was given up is still told")
	}
	if got, ok := after(&l, 13); !ok || len(got) != 5 {
		t.Errorf("after 13: %v %v", got, ok)
	}
	select {
	case <-slow.ready:
	default:
		t.Error("a slow reader does not wake up")
	}
	if slow.next.Load() != nil {
		t.Error("a slow reader keeps the log alive")
	}
	l.trim(22)
	if got, ok := after(&l, 22); !ok || len(got) != 1 {
		t.Errorf("after 22, trimmed: %v %v", got, ok)
	}
	done := newLog(10, 5*(1000+eventSize))
	appendTo(&done, 12, 13)
	reader := done.find(10)
	done.finish()
	for reader.next.Load() != nil {
		reader = reader.next.Load()
	}
	select {
	case <-reader.ready:
	default:
		t.Error("who is at the end of a finished log goes on waiting")
	}
	if reader.revision != 13 {
		t.Errorf("a reader of a finished log comes to %d only", reader.revision)
	}
	last := l.last
	l.end()
	select {
	case <-last.ready:
	default:
		t.Error("who waits at the end does not wake up")
	}
}

func TestKept(t *testing.T) {
	k := &kept{limit: 100}
	items := make([]*Item, 5)
	for i := range items {
		items[i] = &Item{kept: k}
		items[i].encoded = &[encodings][]byte{JSON: make([]byte, 30)}
		k.add(items[i], 30)
	}
	for i, item := range items {
		if have := item.encoded != nil; have != (i >= 2) {
			t.Errorf("item %d: kept %v", i, have)
		}
	}
	if k.drop(); items[4].encoded != nil || k.size != 0 {
		t.Error("not everything was dropped")
	}
}
