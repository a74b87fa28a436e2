package scheduler

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/dirwatch"
	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	coalesceWrites = 50 * time.Millisecond // an editor may write several times for one change
	pollFile       = 5 * time.Second       // for file systems without change notifications
	replaceFile    = time.Second           // a file may be missing or empty for a moment while it is replaced
)

// watchConfig reloads the configuration when its file changes, or a file that its plugins read, until ctx ends. It watches the directories: an
// editor often replaces the file, or the target of a link, by a rename.
func (s *Scheduler) watchConfig(ctx context.Context) {
	last := s.fileRead
	var missing <-chan time.Time // while the file is missing or empty: fires after replaceFile
	generation := int64(1)
	dirs := s.dirs()
	changes, stop := dirwatch.Watch(dirs...)
	defer func() { stop() }()
	tick := s.machine.NewTicker(pollFile)
	defer tick.Stop()
	for {
		found := currentVersions(s.watched)
		now, err := s.readFile() // the first read finds changes since New
		switch {
		case err == nil:
			missing = nil
		case missing == nil && last != nil:
			missing = s.machine.After(replaceFile)
		}
		if err == nil && (!bytes.Equal(now, last) || !slices.Equal(found, s.watched)) {
			last, s.watched = now, found
			if s.reload(ctx, now, generation+1) {
				generation++
			}
			if now := s.dirs(); !slices.Equal(now, dirs) {
				stop()
				dirs = now
				changes, stop = dirwatch.Watch(dirs...)
				continue // a change before the new watch
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
			if clock.Sleep(ctx, s.machine, coalesceWrites) != nil {
				return
			}
		case <-tick.C():
		case <-missing:
			if _, err := s.readFile(); err != nil {
				s.refuse(ctx, err)
				last = nil // the file is applied when it is there again, also if it is as before
			}
			missing = nil
		}
	}
}

// readFile returns the content of the configuration file. An empty file is an error.
func (s *Scheduler) readFile() ([]byte, error) {
	raw, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err == nil && len(raw) == 0:
		return nil, errors.New("the file is empty")
	}
	return raw, err
}

// dirs returns the directories of the configuration file, and of the files that its plugins read.
func (s *Scheduler) dirs() []string {
	var out []string
	for _, file := range append([]fileVersion{{path: s.file}}, s.watched...) {
		out = append(out, filepath.Dir(file.path), resolvedDir(file.path))
	}
	return out
}

// watchedFiles are the files that factories read. It is safe for concurrent use: a factory that took too long may still add one.
type watchedFiles struct {
	mu    sync.Mutex
	files []fileVersion
}

func (w *watchedFiles) add(f fileVersion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, f)
}

func (w *watchedFiles) list() []fileVersion {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.files)
}

// fileVersion tells versions of a file apart.
type fileVersion struct {
	path     string
	modified int64 // in Unix nanoseconds
	size     int64
}

// versionOf returns the present version of a file.
func versionOf(path string) fileVersion {
	v := fileVersion{path: path}
	if info, err := os.Stat(path); err == nil {
		v.modified, v.size = info.ModTime().UnixNano(), info.Size()
	}
	return v
}

func currentVersions(of []fileVersion) []fileVersion {
	out := make([]fileVersion, len(of))
	for i, v := range of {
		out[i] = versionOf(v.path)
	}
	return out
}

// reload applies a new configuration with a generation, and returns true. If it is invalid, reload refuses it.
func (s *Scheduler) reload(ctx context.Context, raw []byte, generation int64) bool {
	conf, err := parseConfig(raw)
	var made *setup
	if err == nil {
		made, err = s.newSetup(ctx, conf)
	}
	if err != nil {
		s.refuse(ctx, err)
		return false
	}
	made.generation = generation
	s.bridge.start(ctx)
	_ = s.caches.WaitSynced(ctx) // with those that only new plugins use; it fails when ctx ends
	s.post(func(ctx context.Context) { s.applyConfig(ctx, made) })
	slog.InfoContext(ctx, "new scheduler config in force", "file", s.file)
	s.configEvent(ctx, corev1.EventTypeNormal, "SchedulerConfigApplied", "scheduler config "+s.file+" is in force")
	if s.reloaded != nil {
		s.reloaded(nil)
	}
	return true
}

// refuse keeps the current configuration, and records an Event with the error of the file.
func (s *Scheduler) refuse(ctx context.Context, err error) {
	err = ConfigError("scheduler config "+s.file, err)
	slog.ErrorContext(ctx, "new scheduler config refused, the old one stays in force", "err", err)
	s.configEvent(ctx, corev1.EventTypeWarning, "SchedulerConfigInvalid", err.Error()+"; the previous configuration stays in force")
	s.post(func(context.Context) { s.decisions.refused(err) }) // after the configurations before it
	if s.reloaded != nil {
		s.reloaded(err)
	}
}

// configEvent records an Event about the configuration on the namespace kube-system. It is a core/v1 Event, because each
// occurrence of one is written at once: the one with the greatest resourceVersion describes the configuration in force. The
// third occurrence in a series of events.k8s.io is written minutes later.
func (s *Scheduler) configEvent(ctx context.Context, eventtype, reason, message string) {
	about, ok := s.caches.Namespaces().Get(objects.Key{Name: metav1.NamespaceSystem})
	if !ok {
		about = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	}
	s.recorders.of(corev1.DefaultSchedulerName).Event(ctx, about, eventtype, reason, message)
}

// applyConfig replaces the configuration. The plugins of the old one are closed once no binding cycle uses them, and
// unschedulable pods are retried.
func (s *Scheduler) applyConfig(ctx context.Context, made *setup) {
	old := s.setup
	s.setup, s.memo, s.calls.sites = made, newMemo(), made.sites
	s.setCluster(s.cluster)
	s.queue.configure(ctx, made.profiles, made.backoff)
	s.work.Go(func() { old.close(ctx) })
	s.reportConfig(ctx, made)
	s.watchEvents(ctx)
	now := s.clock.Now()
	s.queue.moveOnEvent(ctx, event{ClusterEvent: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All, CustomLabel: "SchedulerConfigApplied"}}, now)
	for _, pod := range s.caches.Pods().List("", nil) {
		if _, ours := made.profiles[pod.Spec.SchedulerName]; ours && pod.Spec.NodeName == "" && !finished(pod) {
			if info, err := newPodInfo(pod); err == nil {
				s.applyPod(ctx, info, objects.RevisionOf(pod))
			}
		}
	}
}

func resolvedDir(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return filepath.Dir(real)
	}
	return filepath.Dir(path)
}
