package kubelet

import "time"

// backoff is the growing pause before the next start of a failing container, or the next resolution of an image. The
// zero value means no failure yet.
type backoff struct {
	pause   time.Duration
	updated time.Time
}

const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
	// resetAfter is the time without a failure after which the pauses start at firstPause again.
	resetAfter = 2 * lastPause
)

// until returns the rest of the pause after a failure, at the time now; 0 when it is over.
func (b backoff) until(failed, now time.Time) time.Duration {
	if b.pause == 0 || failed.Sub(b.updated) > resetAfter {
		return 0
	}
	return max(0, b.pause-now.Sub(failed))
}

// next returns the backoff after a failure at the time now.
func (b backoff) next(failed, now time.Time) backoff {
	pause := firstPause
	if b.pause > 0 && failed.Sub(b.updated) <= resetAfter {
		pause = min(2*b.pause, lastPause)
	}
	return backoff{pause: pause, updated: now}
}
