package httpapi

import (
	"log/slog"
	"net/http"
	runtimemetrics "runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
)

// pressureEvery is how long a reading of the memory is valid. A reading takes microseconds.
const pressureEvery = 10 * time.Millisecond

// pressure reports whether the memory of the process approaches its limit. It is safe for concurrent use.
type pressure struct {
	limit uint64 // bytes; 0: none
	clock clock.PassiveClock
	read  func() memoryInUse

	next   atomic.Int64 // the time of the next reading, in nanoseconds
	high   atomic.Bool  // the last reading
	warned atomic.Int64 // the time of the last warning, in nanoseconds
}

// memoryInUse is the memory of the process in bytes.
type memoryInUse struct {
	live uint64 // of the heap, as the last garbage collection has found it
	held uint64 // obtained from the system, with garbage
}

func readMemory() memoryInUse {
	samples := []runtimemetrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	runtimemetrics.Read(samples)
	return memoryInUse{live: samples[0].Value.Uint64(), held: samples[1].Value.Uint64() - samples[2].Value.Uint64()}
}

// exceeded reports whether requests that may take memory have to be refused: the live heap takes three quarters of the limit,
// or the garbage collector, whose own limit is lower, does not keep the process below nine tenths of it.
func (p *pressure) exceeded() bool {
	if p.limit == 0 {
		return false
	}
	now := p.clock.Now().UnixNano()
	if next := p.next.Load(); now < next || !p.next.CompareAndSwap(next, now+int64(pressureEvery)) {
		return p.high.Load()
	}
	m := p.read()
	high := m.live > p.limit/4*3 || m.held > p.limit/10*9
	p.high.Store(high)
	if last := p.warned.Load(); high && now-last > int64(time.Minute) && p.warned.CompareAndSwap(last, now) {
		slog.Warn("memory limit nearly reached: requests are rejected with 429", "live", m.live, "held", m.held, "limit", p.limit)
	}
	return high
}

// shed rejects requests with 429 while the memory limit is nearly reached. The requests of components, health checks and
// deletes of one object are served: they take little memory, and some free it.
func (s *Handler) shed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := callOf(r); s.memory.exceeded() && !authn.Component(c.user) && c.address.verb != "delete" && !operational(c, r) {
			tooMany(w, r, fair.ErrBusy)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// operational reports whether a request is a health check, or reads metrics or profiles.
func operational(c *call, r *http.Request) bool {
	if c.address.resourceful {
		return false
	}
	for _, p := range []string{"/healthz", "/livez", "/readyz", "/metrics", "/debug/"} {
		if strings.HasPrefix(r.URL.Path, p) {
			return true
		}
	}
	return false
}
