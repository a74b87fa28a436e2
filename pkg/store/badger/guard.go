package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
)

// guardEvery is how long the guard may lag behind the head.
const guardEvery = time.Second

// guard remembers the head outside Badger, so that an Open that has silently lost the end of a log, or whole tables, is
// noticed. It is refreshed about every second; only what was noted can be noticed.
type guard struct {
	path string
	last store.Revision
}

func openGuard(path string) (*guard, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &guard{path: path}, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b) == 0 { // the machine has lost power before the file's content was on disk
		return &guard{path: path}, nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &guard{path: path, last: store.Revision(n)}, nil
}

// watch notes the head, and keeps the ballast, until stop is closed. The ticker is the machine's: this is about files, not about
// the cluster's time.
func (s *Store) watch(stop <-chan struct{}) {
	tick := time.NewTicker(guardEvery) //nolint:forbidigo // see above
	defer tick.Stop()
	keeping := true
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if err := s.guard.note(store.Revision(s.head.Load())); err != nil {
				slog.Warn("head guard not written", "err", err)
			}
			if !keeping {
				continue
			}
			if err := s.ballast.keep(); err != nil {
				slog.Warn("no disk space is kept in reserve", "err", err)
				keeping = false // it would be no better a second later
			}
		}
	}
}

// note writes the head by rename, so that a kill leaves the old or the new number.
func (g *guard) note(head store.Revision) error {
	if head == g.last {
		return nil
	}
	tmp := g.path + ".new"
	if err := os.WriteFile(tmp, strconv.AppendUint(nil, uint64(head), 10), 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, g.path); err != nil {
		return err
	}
	g.last = head
	return nil
}

func (g *guard) close(head store.Revision) error { return g.note(head) }
