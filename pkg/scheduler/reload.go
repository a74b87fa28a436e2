package scheduler

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
)

const (
	settleFile = 50 * time.Millisecond // an editor's several writes are one change
	lookAgain  = 5 * time.Second       // for file systems that tell nothing
)

// follow reads the configuration file again when it changes, until ctx ends. It watches the folder, since a file is
// often replaced by a rename, or is a link whose target is.
func (s *Scheduler) follow(ctx context.Context) {
	last := s.fileRead
	changes, stop := watchFolders(filepath.Dir(s.file), resolvedFolder(s.file))
	defer stop()
	tick := s.clock.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		// First for what has changed since New read it. An error is the moment between a removal and a rename.
		if now, err := os.ReadFile(s.file); err == nil && !bytes.Equal(now, last) {
			last = now
			s.reload(ctx, now)
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
			if clock.Sleep(ctx, s.clock, settleFile) != nil {
				return
			}
		case <-tick.C():
		}
	}
}

// reload makes a new configuration take effect with the next cycle, or says why it cannot.
func (s *Scheduler) reload(ctx context.Context, raw []byte) {
	conf, err := parseConfig(raw)
	var made *setup
	if err == nil {
		made, err = s.prepare(ctx, conf)
	}
	if err != nil {
		err = fmt.Errorf("scheduler config %s: %w", s.file, err)
		slog.ErrorContext(ctx, "new scheduler config refused, the old one stays", "err", err)
	} else {
		s.bridge.start(ctx)
		s.tell(func(ctx context.Context) { s.take(ctx, made) })
		slog.InfoContext(ctx, "new scheduler config taken", "file", s.file)
	}
	if s.reloaded != nil {
		s.reloaded(err)
	}
}

// take puts a new configuration in force: what was remembered is forgotten, and parked pods get another chance.
func (s *Scheduler) take(ctx context.Context, made *setup) {
	s.setup, s.memo = made, newMemo()
	s.queue.configure(made.profiles, made.backoff)
	now := s.clock.Now()
	s.queue.happened(ctx, event{ClusterEvent: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}}, now)
	for _, pod := range s.caches.Pods().List("", nil) {
		if _, ours := made.profiles[pod.Spec.SchedulerName]; ours && pod.Spec.NodeName == "" && !finished(pod) {
			if info, err := newPodInfo(pod); err == nil {
				s.podSeen(ctx, info, revisionOf(pod))
			}
		}
	}
}

// watchFolders tells of changes in folders, coalesced. Where that is not possible it tells nothing, and the caller's own
// looking is all there is.
func watchFolders(folders ...string) (<-chan struct{}, func()) {
	changes := make(chan struct{}, 1)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return changes, func() {}
	}
	for _, f := range folders {
		_ = w.Add(f) // gone or unwatchable: see above
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case _, ok := <-w.Events:
				if !ok {
					return
				}
			case _, ok := <-w.Errors: // too many events to tell: something has changed
				if !ok {
					return
				}
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes, func() { w.Close(); <-done }
}

func resolvedFolder(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return filepath.Dir(real)
	}
	return filepath.Dir(path)
}
