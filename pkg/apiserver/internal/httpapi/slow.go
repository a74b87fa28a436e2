package httpapi

import (
	"context"
	"sync"
	"time"
)

// slowSender and slowReader are how long a request keeps its seat while it waits for its client, which sends the body or reads the
// response. Clients that neither send nor read would otherwise take all seats.
const slowSender, slowReader = time.Second, 100 * time.Millisecond

// awaitBody is called when a request begins to read its body, and the returned function when it has done so. If that takes long, the
// request leaves its seat meanwhile.
func (c *call) awaitBody(ctx context.Context) (done func()) {
	return c.awaitClient(slowSender, func() func() { return c.seat.Pause(ctx) })
}

// awaitReader is called when a request begins to write a part of its response, and the returned function when it has done so. If that
// takes long, the request leaves its seat for good.
func (c *call) awaitReader() (done func()) {
	return c.awaitClient(slowReader, func() func() {
		c.seat.Leave()
		return func() {}
	})
}

// awaitClient calls leave after d, unless done was called before. After a call of leave, done calls the function that leave has returned.
func (c *call) awaitClient(d time.Duration, leave func() (resume func())) (done func()) {
	if c.clock == nil {
		return func() {}
	}
	var mu sync.Mutex
	ended, resume := false, func() {}
	timer := c.clock.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			resume = leave()
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		ended = true
		mu.Unlock()
		resume()
	}
}
