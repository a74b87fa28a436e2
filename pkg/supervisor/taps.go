package supervisor

import (
	"os"
	"slices"
	"sync"
	"time"
)

// patience is how long somebody who is joined to a container may leave its output unread before being dropped. The
// container waits as long, as it does everywhere.
const patience = 10 * time.Second

// taps are those who are joined to a container: each gets what the container writes from then on.
type taps struct {
	patience time.Duration
	mu       sync.Mutex
	all      []*tap
}

// tap is one of them.
type tap struct {
	out, err *os.File
	once     sync.Once
	broken   chan struct{} // closed when it takes no more
}

func (t *taps) join(out, err *os.File) *tap {
	x := &tap{out: out, err: err, broken: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(slices.Clip(t.all), x) // the old slice may be in use
	return x
}

func (t *taps) leave(x *tap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(slices.Clone(t.all), func(y *tap) bool { return x == y })
}

// write passes output on, of stdout or stderr.
func (t *taps) write(name string, data []byte) {
	t.mu.Lock()
	all := t.all
	t.mu.Unlock()
	for _, x := range all {
		f := x.out
		if name == stderrName {
			f = x.err
		}
		_ = f.SetWriteDeadline(time.Now().Add(t.patience)) // /dev/null has none and needs none
		if _, err := f.Write(data); err != nil {
			x.once.Do(func() { close(x.broken) })
			t.leave(x)
		}
	}
}
