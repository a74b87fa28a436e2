package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/clock"
)

// errDeleted ends a wait for an object that was deleted.
var errDeleted = errors.New("it was deleted")

// Waiter waits until objects are current (see statusOf) and reports their progress. It is safe for concurrent use.
type Waiter struct {
	Clients kubernetes.Interface
	Clock   clock.Clock
	Report  func(Progress) // calls don't overlap

	mu      sync.Mutex
	current time.Time
}

// Current returns when the last of the objects became current whose Wait has returned nil.
func (w *Waiter) Current() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

func (w *Waiter) becameCurrent(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.After(w.current) {
		w.current = at
	}
}

func (w *Waiter) report(p Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Report(p)
}

// FollowPods reports the progress of an object's pods until ctx ends. It returns at once for an object without pods.
func (w *Waiter) FollowPods(ctx context.Context, info *resource.Info) error {
	if err := newPodWatcher(w, info).run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// holdTime is how long an object with pods must stay current. A container that exits right after its start makes its pod
// ready for a moment. minReadySeconds is part of being current: it counts available replicas.
const holdTime = time.Second

// Wait returns nil when the object of info is current, and has been for holdTime if it has pods. It returns an error when the
// object can't become current or ctx ends; the error holds the last Event and the last log lines of the pod at fault.
func (w *Waiter) Wait(ctx context.Context, info *resource.Info) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	pods := newPodWatcher(w, info)
	ended := make(chan error, 1)
	go func() { ended <- pods.run(running) }()
	err := w.ready(running, info, pods.signals)
	cancel()
	watchErr := <-ended
	switch {
	case err == nil && watchErr != nil && !errors.Is(watchErr, context.Canceled):
		return watchErr
	case err != nil && !errors.Is(context.Cause(ctx), context.Canceled):
		return pods.explain(context.WithoutCancel(ctx), err)
	}
	return err
}

// change is an object as a watch has sent it.
type change struct {
	obj *unstructured.Unstructured
	err error
}

// ready waits until the object is current, and has been for holdTime if it has pods.
func (w *Waiter) ready(ctx context.Context, info *resource.Info, pods signals) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make(chan change)
	go func() {
		for obj, err := range objects(ctx, info) {
			select {
			case changes <- change{obj, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	hold := holdTimer{clock: w.Clock}
	defer hold.stop()
	var printed string
	say := func(progress string) {
		if progress != "" && progress != printed {
			w.report(Progress{Object: Name(info), Text: progress})
			printed = progress
		}
	}
	var last status
	for {
		select {
		case <-ctx.Done():
			if printed == "" {
				return fmt.Errorf("wait for %s: %w", Name(info), context.Cause(ctx))
			}
			return fmt.Errorf("wait for %s: %w: %s", Name(info), context.Cause(ctx), printed)
		case err := <-pods.failed:
			return fmt.Errorf("%s: %w", Name(info), err)
		case <-pods.restarted:
			if last.current {
				hold.restart()
			}
		case <-hold.ended:
			say(last.progress)
			w.becameCurrent(hold.begun)
			return nil
		case c := <-changes:
			if c.err != nil {
				return fmt.Errorf("wait for %s: %w", Name(info), c.err)
			}
			now, err := statusOf(c.obj)
			if err != nil {
				return fmt.Errorf("%s: %w", Name(info), err)
			}
			switch {
			case now.final || now.current && !now.hold:
				say(now.progress)
				w.becameCurrent(w.Clock.Now())
				return nil
			case !now.current:
				hold.stop()
				say(now.progress)
			case !last.current:
				hold.restart()
			}
			last = now
		}
	}
}

// holdTimer measures the hold time. A timer of its own for each start keeps the end of one hold time out of the next.
type holdTimer struct {
	clock clock.Clock
	timer clock.Timer
	begun time.Time
	ended <-chan time.Time // nil while the timer is stopped
}

func (h *holdTimer) restart() {
	h.stop()
	h.begun = h.clock.Now()
	h.timer = h.clock.NewTimer(holdTime)
	h.ended = h.timer.C()
}

func (h *holdTimer) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.ended = nil
}

// Name returns kubectl's name of an object: deployment.apps/web.
func Name(info *resource.Info) string {
	gk := info.Mapping.GroupVersionKind.GroupKind()
	kind := strings.ToLower(gk.Kind)
	if gk.Group != "" {
		kind += "." + gk.Group
	}
	return kind + "/" + info.Name
}

// objects yields the object of info and each of its changes until ctx ends. It reads the object again after a watch has ended.
func objects(ctx context.Context, info *resource.Info) func(yield func(*unstructured.Unstructured, error) bool) {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		helper := resource.NewHelper(info.Client, info.Mapping)
		for ctx.Err() == nil {
			obj, err := helper.Get(info.Namespace, info.Name)
			if err != nil {
				yield(nil, err)
				return
			}
			u, err := asUnstructured(obj)
			if !yield(u, err) || err != nil {
				return
			}
			changes, err := helper.WatchSingle(info.Namespace, info.Name, u.GetResourceVersion())
			if err != nil {
				yield(nil, err)
				return
			}
			stop := context.AfterFunc(ctx, changes.Stop)
			for ev := range changes.ResultChan() {
				if ev.Type == watch.Deleted {
					err = errDeleted
				} else if ev.Type == watch.Error {
					break
				} else {
					u, err = asUnstructured(ev.Object)
				}
				if !yield(u, err) || err != nil {
					changes.Stop()
					stop()
					return
				}
			}
			changes.Stop()
			stop()
		}
	}
}

func asUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	return &unstructured.Unstructured{Object: m}, err
}

// goneTimeout is how long a forced replacement waits for the old object to be gone.
const goneTimeout = 2 * time.Minute

// awaitGone waits until the object of info no longer exists.
func awaitGone(info *resource.Info) error {
	ctx, cancel := context.WithTimeout(context.Background(), goneTimeout) //nolint:forbidigo // kubectl's visitors have none
	defer cancel()
	for _, err := range objects(ctx, info) {
		if apierrors.IsNotFound(err) || errors.Is(err, errDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("timed out waiting for %s to be gone", Name(info))
}
