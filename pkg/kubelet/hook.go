package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/internal/probe"
)

// runHook runs a lifecycle hook of a running container. It cancels the hook after limit; 0 means no limit.
func (l *podLifecycle) runHook(ctx context.Context, pod *corev1.Pod, c *corev1.Container, run Container, h *corev1.LifecycleHandler, limit time.Duration) error {
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = l.kubelet.withTimeout(ctx, limit)
		defer stop()
	}
	switch {
	case h.Exec != nil:
		return l.execHook(ctx, run, l.kubelet.execCommand(c, h.Exec.Command))
	case h.Sleep != nil:
		return clock.Sleep(ctx, l.machineClock(), time.Duration(h.Sleep.Seconds)*time.Second)
	case h.HTTPGet != nil:
		url, err := l.httpURL(pod, c, h.HTTPGet)
		if err != nil {
			return err
		}
		req, err := probe.NewRequest(ctx, url, h.HTTPGet.HTTPHeaders, userAgent)
		if err != nil {
			return err
		}
		resp, err := probe.Hook.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("http hook: status %d: %w", resp.StatusCode, err)
		}
		return nil
	}
	return fmt.Errorf("invalid handler: %v", h)
}

func (l *podLifecycle) execHook(ctx context.Context, run Container, cmd []string) error {
	ex, err := l.kubelet.execer()
	if err != nil {
		return err
	}
	var out output
	code, err := ex.Exec(ctx, run.ID, cmd, Streams{Out: &out, Err: &out})
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("command %q exited with %d: %s", cmd, code, out.String())
	}
	return nil
}

// withTimeout returns a context that ends after d of machine time.
func (k *Kubelet) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := k.host.machineClock().AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		t.Stop()
		cancel(nil)
	}
}

// attacher returns the runtime as an Attacher, or, if it does not implement that, the error that users see.
func (k *Kubelet) attacher() (Attacher, error) {
	at, ok := k.runtime.(Attacher)
	if !ok {
		return nil, fmt.Errorf("the %s runtime of node %s cannot attach to containers", k.Tier.Name, k.Name)
	}
	return at, nil
}

// execer returns the runtime as an Execer, or, if it does not implement that, the error that users see.
func (k *Kubelet) execer() (Execer, error) {
	ex, ok := k.runtime.(Execer)
	if !ok {
		return nil, fmt.Errorf("the %s runtime of node %s cannot run commands in containers", k.Tier.Name, k.Name)
	}
	return ex, nil
}
