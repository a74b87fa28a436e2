package kubelet

import "sync"

// maxOutput bounds the output that is kept of a probe's or hook's command, in bytes.
const maxOutput = 10 << 10

// output keeps the beginning of a command's output and discards the rest. A runtime may write both streams to it at the
// same time.
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
