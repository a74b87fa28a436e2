package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/terminal"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// join connects files with the streams of a container. It returns when the container ends, when the daemon closes the
// connection, or when the given input has ended and the container's input stays open for the next client.
func (s *supervisor) join(conn *wire.Conn, req *wire.Request, files []*os.File) error {
	if len(files) != 3 {
		return errors.New("join: no streams")
	}
	c, logs, err := s.running(req.ID)
	if err != nil {
		return err
	}
	x := logs.taps.join(files[1], files[2])
	defer logs.taps.leave(x)
	var fed chan bool // receives whether the container's input stays open
	if req.Input {
		fed = make(chan bool, 1)
		go func() { fed <- s.feed(c, logs, files[0]) }()
		defer func() {
			_ = files[0].SetReadDeadline(pastDeadline)
			if fed != nil {
				<-fed
			}
		}()
	}
	gone := hungUp(conn)
	for {
		select {
		case on := <-fed:
			fed = nil
			if on {
				return nil
			}
		case <-x.broken:
			return nil
		case <-gone:
			return nil
		case <-c.ended:
			return nil
		}
	}
}

// pastDeadline is a deadline that ends pending reads and writes at once.
var pastDeadline = time.Unix(1, 0)

// running returns a container, which must run, and its logs.
func (s *supervisor) running(id string) (*container, *logs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	if c == nil {
		return nil, nil, fmt.Errorf("%s: %w", id, wire.ErrNotFound)
	}
	if !c.status.Running || c.status.Revision == 0 || c.logs == nil {
		return nil, nil, fmt.Errorf("%s: %w", id, wire.ErrStopped)
	}
	return c, c.logs, nil
}

// hungUp returns a channel that is closed when the daemon has closed conn.
func hungUp(conn *wire.Conn) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var never wire.Request
		_, _ = conn.Receive(&never)
	}()
	return gone
}

// feed copies the file from into the container's input until either ends, and reports whether the container's input stays
// open. For a container without input it waits for the container's end, so that the client still receives the output.
func (s *supervisor) feed(c *container, logs *logs, from *os.File) (on bool) {
	to, err := s.input(c)
	if err != nil {
		logf("%s: input: %v", c.spec.ID, err)
	}
	if to == nil {
		return false
	}
	defer to.Close()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-c.ended:
		case <-logs.inputEnded:
		case <-over:
			return
		}
		_ = from.SetReadDeadline(pastDeadline)
		_ = to.SetWriteDeadline(pastDeadline)
	}()
	_, _ = io.Copy(to, from) // ends with either side
	if !c.spec.StdinOnce || c.spec.TTY {
		return true
	}
	s.closeInput(c)
	return false
}

// input opens the container's input for one more writer. It returns nil if the container has none.
func (s *supervisor) input(c *container) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !c.spec.Stdin || c.status.Closed || c.logs == nil:
		return nil, nil
	case c.spec.TTY:
		if c.logs.streams.out == nil {
			return nil, nil
		}
		return duplicate(c.logs.streams.out)
	}
	return os.OpenFile(c.pipe(wire.InputPipe), os.O_WRONLY|syscall.O_NONBLOCK, 0)
}

// closeInput ends the input of a container once its other writers have closed it.
func (s *supervisor) closeInput(c *container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.logs == nil || c.logs.streams.in == nil {
		return
	}
	c.logs.streams.in.Close()
	c.logs.streams.in = nil
	close(c.logs.inputEnded)
	c.status.Closed = true
	s.publish(c) // so that the daemon closes its end as well
}

// resize sets the size of a container's terminal.
func (s *supervisor) resize(id string, size *wire.Size) error {
	c, logs, err := s.running(id)
	if err != nil || size == nil || !c.spec.TTY || logs.streams.out == nil {
		return err
	}
	return terminal.Resize(logs.streams.out, size.Width, size.Height)
}
