// Package dev is the inner loop of development: it builds a program, applies the manifests that run it, and does so again whenever a source
// file changes.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// Loop builds and deploys. Its fields may not change while it runs.
type Loop struct {
	Build  []string  // the program that builds, and its arguments
	Watch  []string  // the sources: directories with their sub-directories, and files
	Ignore []string  // patterns (see filepath.Match) of names of files and directories that are no sources
	Stdout io.Writer // of the build; the loop's own lines, too. A file is no source, also among the sources
	Stderr io.Writer
	Clock  clock.Clock

	// Deploy applies the manifests, waits until their objects are ready and returns when the last one became so. It ends early when ctx ends.
	Deploy func(ctx context.Context) (ready time.Time, err error)
	// Built returns the files and directories that the build makes and that pods use, as far as they are known.
	Built func() []string

	tree    *tree
	built   []string
	written map[string]bool // files that the build writes among the sources
}

// quiet is the pause after a change in which no other one comes before a build. Editors save a file in several steps.
const quiet = 50 * time.Millisecond

// Run builds, deploys and waits for changes until ctx ends. A failed build or deployment is printed; the next change begins another round.
func (l *Loop) Run(ctx context.Context) error {
	tree, err := openTree(l.Watch, l.Ignore, l.Stdout, l.Stderr)
	if err != nil {
		return fmt.Errorf("watch the sources: %w", err)
	}
	defer tree.close()
	l.tree, l.written = tree, map[string]bool{}
	for changed := l.Clock.Now(); ctx.Err() == nil; {
		l.built = l.Built()
		sources, err := l.build(ctx)
		if err == nil {
			err = l.deploy(ctx, sources, changed)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			l.print("failed  %v", err)
		}
		if sources == nil {
			return err // they can't be read
		}
		l.print("waiting for changes")
		if changed, err = l.changed(ctx, sources); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loop) print(format string, args ...any) { fmt.Fprintf(l.Stdout, format+"\n", args...) }

// build runs the build and returns the state of the sources after it, nil if they can't be read. A source may have been saved while the build
// ran, so it runs again until all files that have changed are its own: those that change during two builds in a row.
func (l *Loop) build(ctx context.Context) (snapshot, error) {
	var earlier []string
	for {
		before, err := l.tree.snapshot()
		if err != nil {
			return nil, err
		}
		failed := l.run(ctx)
		after, err := l.tree.snapshot()
		if err != nil {
			return nil, err
		}
		changes := slices.DeleteFunc(l.sources(after.since(before)), func(path string) bool {
			l.written[path] = l.written[path] || slices.Contains(earlier, path)
			return l.written[path]
		})
		if len(changes) == 0 || ctx.Err() != nil {
			return after, failed
		}
		earlier = changes
	}
}

// run runs the build once.
func (l *Loop) run(ctx context.Context) error {
	begun := l.Clock.Now()
	cmd := exec.CommandContext(ctx, l.Build[0], l.Build[1:]...)
	cmd.Stdout, cmd.Stderr = l.Stdout, l.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; the pods stay as they are", strings.Join(l.Build, " "), err)
	}
	l.print("built   %s (%s)", strings.Join(l.Build, " "), rounded(l.Clock.Since(begun)))
	return nil
}

// deploy applies the manifests and waits until their objects are ready, or until the sources change.
func (l *Loop) deploy(ctx context.Context, sources snapshot, changed time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	var ready time.Time
	go func() {
		var err error
		ready, err = l.Deploy(ctx)
		ended <- err
	}()
	saved := make(chan error, 1)
	go func() {
		_, err := l.changed(ctx, sources)
		saved <- err
	}()
	select {
	case err := <-ended:
		cancel()
		<-saved
		if err == nil {
			l.print("ready   %s after the change", rounded(ready.Sub(changed)))
		}
		return err
	case err := <-saved:
		cancel()
		return errors.Join(err, ignoreCanceled(<-ended))
	}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// changed waits until the sources differ from an earlier state, and returns when they did.
func (l *Loop) changed(ctx context.Context, earlier snapshot) (time.Time, error) {
	for {
		now, err := l.tree.snapshot() // watches new directories, and finds what has changed before
		if err != nil {
			return time.Time{}, err
		}
		at := l.Clock.Now()
		if changes := l.sources(now.since(earlier)); len(changes) > 0 {
			for _, path := range changes {
				delete(l.written, path) // not by the build alone
			}
			return at, l.settle(ctx)
		}
		select {
		case <-ctx.Done():
			return at, nil
		case err := <-l.tree.watcher.Errors:
			return at, fmt.Errorf("watch the sources: %w", err)
		case <-l.tree.watcher.Events:
		}
	}
}

// settle returns once no change has come for a moment.
func (l *Loop) settle(ctx context.Context) error {
	timer := l.Clock.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			return nil
		case err := <-l.tree.watcher.Errors:
			return fmt.Errorf("watch the sources: %w", err)
		case <-l.tree.watcher.Events:
			timer.Reset(quiet)
		}
	}
}

// sources returns the paths without those of what the build makes.
func (l *Loop) sources(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.ContainsFunc(l.built, func(file string) bool {
			return path == file || strings.HasPrefix(path, file+string(filepath.Separator))
		})
	})
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
