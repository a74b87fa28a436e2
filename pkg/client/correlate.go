package client

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The limits of client-go's correlator.
const (
	maxRemembered = 4096
	maxSimilar    = 10 // events with as many different messages are combined
	similarFor    = 10 * time.Minute
	eventBurst    = 25       // events about one object
	eventRate     = 1. / 300 // more of them, per second
)

// correlator counts equal events of a component, combines similar ones and limits those about one object, as
// k8s.io/client-go/tools/record.EventCorrelator does. Which one of maxSimilar messages is forgotten is random there; here it is the oldest, so
// that a cluster in turns repeats. client-go keeps the texts of all these events in small objects, which are allocated among those of a busy
// server and keep its pages; the correlator keeps hashes, in maps without pointers. It is not safe for concurrent use.
type correlator struct {
	clock  clock.Clock
	source *clock.Source
	seed   maphash.Seed

	limits  remembered[budget]      // by aboutKey
	similar remembered[messages]    // by similarKey
	equal   remembered[occurrences] // by equalKey, and for combined events by similarKey
}

// aboutKey is the key of the events that share one budget: those of one type about one object. All events of a correlator are of one component.
type aboutKey struct {
	about     corev1.ObjectReference // without field path and resource version
	eventType string
}

type similarKey struct {
	aboutKey

	reason string
}

type equalKey struct {
	similarKey

	fieldPath, message string
}

// budget is how many events about an object may be written: up to eventBurst, and more at eventRate.
type budget struct {
	spent float64
	at    int64 // the time of the last event, in nanoseconds
}

// messages has the hashes of the last messages of similar events.
type messages struct {
	hashes [maxSimilar - 1]uint64 // the oldest first
	n      int
	last   int64 // the time of the last event, in nanoseconds
}

// occurrences are those of equal events, or of combined ones.
type occurrences struct {
	count int32
	stamp int64 // in the event's name
	first int64 // in seconds
}

func newCorrelator(clk clock.Clock, src *clock.Source) *correlator {
	return &correlator{clock: clk, source: src, seed: maphash.MakeSeed()}
}

// correlate returns the event that the recorder writes instead of ev, whose name contains stamp. The patch, a strategic merge patch, is not nil if
// that event exists and its count increases. Without an event the limits drop ev.
func (c *correlator) correlate(ev *corev1.Event, stamp int64) (*corev1.Event, []byte) {
	about := aboutKey{ev.InvolvedObject, ev.Type}
	about.about.FieldPath, about.about.ResourceVersion = "", ""
	similar := similarKey{about, ev.Reason}
	now := c.clock.Now()

	out, key := *ev, maphash.Comparable(c.seed, equalKey{similar, ev.InvolvedObject.FieldPath, ev.Message})
	if group := maphash.Comparable(c.seed, similar); c.combined(group, maphash.String(c.seed, ev.Message), now) {
		stamp, key = c.source.Stamp(now), group
		out = combine(ev, stamp, metav1.NewTime(now))
	}
	seen := c.equal.get(key)
	if seen.count == 0 {
		seen = occurrences{out.Count, stamp, out.FirstTimestamp.Unix()}
	} else {
		seen.count++
		out.Name = eventName(out.InvolvedObject, seen.stamp)
		out.FirstTimestamp = metav1.Unix(seen.first, 0)
		out.Count = seen.count
	}
	c.equal.put(key, seen)
	if !c.allowed(maphash.Comparable(c.seed, about), now) {
		return nil, nil
	}
	if seen.count == 1 {
		return &out, nil
	}
	patch, err := json.Marshal(struct {
		Count         int32       `json:"count"`
		LastTimestamp metav1.Time `json:"lastTimestamp"`
		Message       string      `json:"message,omitempty"`
	}{out.Count, out.LastTimestamp, out.Message})
	if err != nil {
		panic(err) // a struct of a number, a time and a text can be encoded
	}
	return &out, patch
}

// combined adds a message to those of similar events, and reports whether there are so many that they are combined.
func (c *correlator) combined(group, message uint64, at time.Time) bool {
	m, now := c.similar.get(group), at.UnixNano()
	defer func() { c.similar.put(group, m) }()
	if now-m.last > int64(similarFor) {
		m.n = 0
	}
	m.last = now
	for _, known := range m.hashes[:m.n] {
		if known == message {
			return false
		}
	}
	if m.n < len(m.hashes) {
		m.hashes[m.n] = message
		m.n++
		return false
	}
	copy(m.hashes[:], m.hashes[1:])
	m.hashes[len(m.hashes)-1] = message
	return true
}

// allowed takes an event from the budget of an object, if it has one.
func (c *correlator) allowed(about uint64, at time.Time) bool {
	b, now := c.limits.get(about), at.UnixNano()
	elapsed := time.Duration(max(0, now-b.at))                              // 0 if the clock was set back
	b.spent = max(0, b.spent-elapsed.Seconds()*float64(float32(eventRate))) // client-go has the rate as a float32
	b.at = now
	ok := b.spent+1 <= eventBurst
	if ok {
		b.spent++
	}
	c.limits.put(about, b)
	return ok
}

// combine returns the event for events that are similar to ev.
func combine(ev *corev1.Event, stamp int64, now metav1.Time) corev1.Event {
	return corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: eventName(ev.InvolvedObject, stamp), Namespace: ev.Namespace},
		Count:      1, FirstTimestamp: now, LastTimestamp: now,
		Message:        "(combined from similar events): " + ev.Message,
		InvolvedObject: ev.InvolvedObject, Type: ev.Type, Reason: ev.Reason, Source: ev.Source,
	}
}

// eventName returns the name of an event about an object. A Source's stamps are unique, so the names of its recorders are, too.
func eventName(about corev1.ObjectReference, stamp int64) string {
	return fmt.Sprintf("%s.%x", about.Name, stamp)
}

// remembered maps hashes to values, and forgets those that have not been put for the longest time: it has the last maxRemembered at least,
// and twice as many at most.
type remembered[V any] struct{ young, old map[uint64]V }

// get returns the value of a hash, or zero.
func (r *remembered[V]) get(hash uint64) V {
	if v, ok := r.young[hash]; ok {
		return v
	}
	return r.old[hash]
}

func (r *remembered[V]) put(hash uint64, v V) {
	if _, ok := r.young[hash]; !ok && len(r.young) == maxRemembered {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[uint64]V{}
	}
	r.young[hash] = v
}
