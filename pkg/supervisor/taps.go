package supervisor

import (
	"os"
	"slices"
	"sync"
	"time"
)

// writeTimeout is how long a joined client may leave the container's output unread before it is dropped. The container blocks
// meanwhile, as in other runtimes.
const writeTimeout = 10 * time.Second

// taps are the clients joined to a container. Each receives the output from the moment it joins.
type taps struct {
	timeout time.Duration
	mu      sync.Mutex
	all     []*tap
}

// tap is one joined client.
type tap struct {
	out, err *os.File
	once     sync.Once
	broken   chan struct{} // closed when the client receives no more
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

// write copies output of stdout or stderr to all clients.
func (t *taps) write(name string, data []byte) {
	t.mu.Lock()
	all := t.all
	t.mu.Unlock()
	for _, x := range all {
		f := x.out
		if name == stderrName {
			f = x.err
		}
		_ = f.SetWriteDeadline(time.Now().Add(t.timeout)) // /dev/null has none and needs none
		if _, err := f.Write(data); err != nil {
			x.once.Do(func() { close(x.broken) })
			t.leave(x)
		}
	}
}
