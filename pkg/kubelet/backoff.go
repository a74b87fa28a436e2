package kubelet

import "time"

// backoff says how long a container that keeps ending, or an image that cannot be had, waits for its next try. The zero
// value has not failed yet.
type backoff struct {
	pause   time.Duration
	updated time.Time
}

const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
	// resetAfter is how long nothing may have failed for the pauses to begin anew.
	resetAfter = 2 * lastPause
)

// until returns how long to wait yet at now after the failure at failed; 0 when the next try is due.
func (b backoff) until(failed, now time.Time) time.Duration {
	if b.pause == 0 || failed.Sub(b.updated) > resetAfter {
		return 0
	}
	return max(0, b.pause-now.Sub(failed))
}

// next returns the back-off after one more try, made now because of the failure at failed.
func (b backoff) next(failed, now time.Time) backoff {
	pause := firstPause
	if b.pause > 0 && failed.Sub(b.updated) <= resetAfter {
		pause = min(2*b.pause, lastPause)
	}
	return backoff{pause: pause, updated: now}
}
