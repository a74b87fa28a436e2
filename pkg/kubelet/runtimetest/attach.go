package runtimetest

import (
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

func (f *fixture) attacher() kubelet.Attacher {
	f.Helper()
	a, ok := f.Runtime.(kubelet.Attacher)
	if !ok {
		f.Skip("the runtime cannot attach")
	}
	return a
}

// written collects the output so far.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *written) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *written) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *written) has(text string) func() bool {
	return func() bool { return strings.Contains(s.String(), text) }
}

// attached is a running call of Attach.
type attached struct {
	in       *io.PipeWriter
	out, err written
	sizes    chan kubelet.WindowSize
	ended    chan error
}

func (f *fixture) attach(id kubelet.ContainerID) *attached {
	a := &attached{sizes: make(chan kubelet.WindowSize), ended: make(chan error, 1)}
	in, typed := io.Pipe()
	a.in = typed
	at := f.attacher()
	go func() {
		a.ended <- at.Attach(f.ctx, id, kubelet.Streams{In: in, Out: &a.out, Err: &a.err, Resize: a.sizes})
	}()
	return a
}

func (a *attached) write(f *fixture, text string) {
	f.Helper()
	if _, err := io.WriteString(a.in, text); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) waitEnd(a *attached) {
	f.Helper()
	select {
	case err := <-a.ended:
		if err != nil {
			f.Errorf("the end of attach: %v", err)
		}
	case <-f.ctx.Done():
		f.Fatal("attach does not end")
	}
}

const echoes = `while read line; do echo "out $line"; echo "err $line" >&2; done; echo over; exit 3`

// attachInput attaches twice with input to a container whose input stays open.
func attachInput(f *fixture) {
	p := f.pod()
	spec := f.command("sh", "-c", echoes)
	spec.Stdin = true
	id := f.start(p, spec)
	for _, word := range []string{"one", "two"} {
		a := f.attach(id)
		a.write(f, word+"\n")
		f.wait("out "+word, a.out.has("out "+word+"\n"))
		f.wait("err "+word, a.err.has("err "+word+"\n"))
		_ = a.in.Close()
		f.waitEnd(a)
	}
	if c, _ := f.find(id); !c.Running {
		f.Errorf("the container ended with the input of the second: %+v", c)
	}
	f.wait("the log", func() bool { return strings.Contains(f.log(spec), "stdout F out two\n") })
	if err := f.Stop(f.ctx, id, 0); err != nil {
		f.Fatal(err)
	}
	if err := f.attacher().Attach(f.ctx, id, kubelet.Streams{}); err == nil {
		f.Error("attached to a container that has ended")
	}
}

// attachOnce attaches with input to a container with StdinOnce.
func attachOnce(f *fixture) {
	p := f.pod()
	spec := f.command("sh", "-c", echoes)
	spec.Stdin, spec.StdinOnce = true, true
	id := f.start(p, spec)
	other := f.attach(id) // its input ends with that of the client that ends first
	other.write(f, "some\n")
	f.wait("out some", other.out.has("out some\n"))
	a := f.attach(id)
	a.write(f, "all\n")
	f.wait("out all", a.out.has("out all\n"))
	_ = a.in.Close()
	f.waitEnd(a)
	if !a.out.has("over\n")() {
		f.Errorf("what came last is missing in %q", a.out.String())
	}
	f.waitEnd(other)
	if !other.out.has("out all\nover\n")() {
		f.Errorf("the other got %q", other.out.String())
	}
	if c := f.ended(id); c.ExitCode != 3 {
		f.Errorf("exit code %d, want 3", c.ExitCode)
	}
}

// attachTerminal uses a container's terminal, over a restart of the driver.
func attachTerminal(f *fixture) {
	if runtime.GOOS != "linux" {
		f.Skip("terminals are for Linux so far")
	}
	p := f.pod()
	spec := f.command("sh", "-c", `test -t 0 && test -t 1 && test -t 2 || exit 1
		while read line; do echo "$TERM got $line"; [ "$line" = size ] && stty size; done`)
	spec.Stdin, spec.TTY = true, true
	id := f.start(p, spec)
	a := f.attach(id)
	a.write(f, "hello\n")
	f.wait("the echo and the answer", a.out.has("hello\r\nxterm got hello\r\n"))
	a.sizes <- kubelet.WindowSize{Width: 91, Height: 33}
	a.sizes <- kubelet.WindowSize{Width: 92, Height: 34} // is read after the first
	_ = a.in.Close()
	f.waitEnd(a)
	f.restart()
	a = f.attach(id)
	f.wait("the size", func() bool {
		a.write(f, "size\n")
		return strings.Contains(a.out.String(), "33 91\r\n") || strings.Contains(a.out.String(), "34 92\r\n")
	})
	a.write(f, "\x04") // the terminal's own end of input
	f.waitEnd(a)
	f.ended(id)
}
