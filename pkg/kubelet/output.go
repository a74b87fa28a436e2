package kubelet

import "sync"

// maxOutput is how much is kept of what a command of a probe or hook writes.
const maxOutput = 10 << 10

// output keeps the beginning of what a command writes to both its streams, which a runtime may copy at the same time. It
// takes the rest as well, so that the command is not held up.
type output struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b[:min(len(b), maxOutput-len(o.text))]...)
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
