package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// drain is how long Exec reads the rest of an ended command's output. Only a process that the command has left behind keeps
// the output open for longer.
const drain = time.Second

// Exec implements kubelet.Execer.
func (r *Runtime) Exec(ctx context.Context, id kubelet.ContainerID, cmd []string, streams kubelet.Streams) (int, error) {
	argv, err := r.host.resolve(ctx, id, cmd)
	if err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	if streams.TTY {
		return r.execTTY(ctx, id, argv, streams)
	}
	var p execPipes
	defer p.close()
	if err := p.connect(streams); err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	for _, f := range p.theirs {
		f.Fd() // makes the file blocking: the command shares the mode, and does not expect EAGAIN
	}
	reply, err := r.host.call(ctx, &wire.Request{Op: wire.Exec, ID: string(id), Exec: &wire.Command{Argv: argv}}, p.theirs...)
	cut := r.host.clock.AfterFunc(drain, p.cut)
	p.finish()
	cut.Stop()
	return reply.Exit, err
}

// resolve returns cmd as the container's own command is resolved. The supervisor refuses a container that does not exist.
func (h *Host) resolve(ctx context.Context, id kubelet.ContainerID, cmd []string) ([]string, error) {
	if err := h.await(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status[string(id)]
	if s == nil {
		return cmd, nil
	}
	return viewOf(s.Spec).resolve(cmd), nil
}

// execPipes holds the pipes between the streams of a command and those of its caller.
type execPipes struct {
	theirs  []*os.File
	readers []*os.File
	input   *os.File
	copies  sync.WaitGroup
}

// connect opens the pipes and starts the copying.
func (p *execPipes) connect(s kubelet.Streams) error {
	if err := p.connectIn(s.In); err != nil {
		return err
	}
	for _, w := range []io.Writer{s.Out, s.Err} {
		if err := p.connectOut(w); err != nil {
			return err
		}
	}
	return nil
}

func (p *execPipes) connectIn(in io.Reader) error {
	if in == nil {
		return p.null()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.theirs, p.input = append(p.theirs, r), w
	go func() {
		_, _ = io.Copy(w, in) // ends with the caller's stream, or when the pipe has no reader
		w.Close()
	}()
	return nil
}

func (p *execPipes) connectOut(out io.Writer) error {
	if out == nil {
		return p.null()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.theirs, p.readers = append(p.theirs, w), append(p.readers, r)
	p.copies.Go(func() {
		_, _ = io.Copy(out, r)
		_, _ = io.Copy(io.Discard, r) // so that the command does not block if the caller has disconnected
	})
	return nil
}

func (p *execPipes) null() error {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	p.theirs = append(p.theirs, f)
	return nil
}

// finish waits for the rest of an ended command's output, for drain at most.
func (p *execPipes) finish() {
	p.closeTheirs()
	p.copies.Wait()
}

// cut ends the reading of the output.
func (p *execPipes) cut() {
	for _, r := range p.readers {
		_ = r.SetReadDeadline(time.Unix(1, 0)) // a deadline in the past ends a pending read
	}
}

func (p *execPipes) closeTheirs() {
	wire.CloseFiles(p.theirs)
	p.theirs = nil
}

func (p *execPipes) close() {
	p.closeTheirs()
	wire.CloseFiles(p.readers)
	if p.input != nil {
		p.input.Close()
	}
	p.copies.Wait()
}
