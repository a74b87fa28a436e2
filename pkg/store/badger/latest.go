package badger

import (
	"sync"

	"github.com/minikctl/minikctl/pkg/store"
)

// latest has the newest entries of the keys that the events in the log have written. An object is often written again soon: its
// next write need not read it, and its next event shares the value. It is safe for concurrent use.
type latest struct {
	mu      sync.Mutex
	entries map[string]store.Entry
}

func (l *latest) get(key string) (store.Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	return e, ok
}

// add adds the entries of events that are committed, and not in the log yet.
func (l *latest) add(events []store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]store.Entry{}
	}
	for _, ev := range events {
		if ev.Value == nil {
			delete(l.entries, ev.Key)
			continue
		}
		l.entries[ev.Key] = store.Entry{Key: ev.Key, Value: ev.Value, Created: ev.Created, Modified: ev.Revision}
	}
}

// drop drops the entry of an event that the log drops, unless a later event has written the key.
func (l *latest) drop(ev *store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[ev.Key].Modified == ev.Revision {
		delete(l.entries, ev.Key)
	}
}
