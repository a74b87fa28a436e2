package httpapi

import "sync"

// inflight counts the requests in flight, so that the server can wait for them when it stops.
type inflight struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // made by none; closed when count is 0
}

func (f *inflight) begin() {
	f.mu.Lock()
	f.count++
	f.mu.Unlock()
}

func (f *inflight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	if f.count == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// none returns a channel that is closed when no request is in flight.
func (f *inflight) none() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	idle := make(chan struct{})
	if f.count == 0 {
		close(idle)
	} else {
		f.idle = idle
	}
	return idle
}
