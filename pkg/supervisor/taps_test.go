package supervisor

import (
	"io"
	"os"
	"testing"
	"time"
)

func TestTapDropsStalledClient(t *testing.T) {
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	_, full := pipe()
	r, w := pipe()
	all := taps{timeout: 10 * time.Millisecond}
	stuck, reads := all.join(full, full), all.join(w, w)
	got := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, r)
		got <- n
	}()
	data := make([]byte, 32<<10)
	const writes = 10 // more than a pipe holds
	for range writes {
		all.write("stdout", data)
	}
	<-stuck.broken
	select {
	case <-reads.broken:
		t.Error("a client that reads was dropped")
	default:
	}
	w.Close()
	if n := <-got; n != writes*int64(len(data)) {
		t.Errorf("got %d bytes", n)
	}
}
