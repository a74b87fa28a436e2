package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// service is a part that runs. run blocks until its context ends, and returns when everything that it started has ended.
type service struct {
	name string
	run  func(ctx context.Context) error
	// ready is closed when the next service may start; nil: at once.
	ready <-chan struct{}
	// ends is how long the service may take to end; 0: stopTimeout.
	ends time.Duration
}

// stopTimeout is how long a service may usually take to end.
const stopTimeout = 10 * time.Second

// running is a service that was started.
type running struct {
	service
	cancel context.CancelFunc
	done   chan error
}

// supervise starts the services in order, calls started once all are ready, waits until ctx ends or one of them ends by
// itself, which is an error, and stops them in reverse, each fully before the next.
func supervise(ctx context.Context, services []service, started func() error) error {
	ended := make(chan *running, len(services))
	var up []*running
	var failure error
	for _, s := range services {
		r := start(ctx, s, ended)
		up = append(up, r)
		if failure = r.awaitReady(ctx, ended); failure != nil || ctx.Err() != nil {
			break
		}
	}
	if failure == nil && ctx.Err() == nil {
		failure = started()
	}
	if failure == nil {
		select {
		case <-ctx.Done():
		case r := <-ended:
			failure = r.unexpected()
		}
	}
	for i := len(up) - 1; i >= 0; i-- {
		failure = errors.Join(failure, up[i].stop())
	}
	return failure
}

func start(ctx context.Context, s service, ended chan<- *running) *running {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{service: s, cancel: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- s.run(own)
		ended <- r
	}()
	return r
}

// awaitReady waits until the next service may start, ctx ends, or a running service ends, which is an error.
func (r *running) awaitReady(ctx context.Context, ended <-chan *running) error {
	if r.ready == nil {
		return nil
	}
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return nil
	case gone := <-ended:
		return gone.unexpected()
	}
}

func (r *running) unexpected() error {
	err := <-r.done
	r.done <- nil
	if err == nil {
		err = errors.New("ended by itself")
	}
	return fmt.Errorf("%s: %w", r.name, err)
}

func (r *running) stop() error {
	began := clock.Real().Now()
	timeout := cmp.Or(r.ends, stopTimeout)
	r.cancel()
	select {
	case err := <-r.done:
		slog.Debug("service ended", "service", r.name, "took", clock.Real().Since(began))
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		return nil
	case <-clock.Real().After(timeout):
		return fmt.Errorf("%s: did not end within %s", r.name, timeout)
	}
}
