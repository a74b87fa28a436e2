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

// guardEvery is the interval at which the guard is written.
const guardEvery = time.Second

// guard keeps the head in a file outside Badger, so that the next Open finds out when Badger has silently lost the end of a log, or
// whole tables. It does not protect the revisions since it was last written.
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
	if len(b) == 0 { // the machine lost power before the content was on disk
		return &guard{path: path}, nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &guard{path: path, last: store.Revision(n)}, nil
}

// watch writes the guard and keeps the ballast until stop is closed. It uses the machine's clock: files have nothing to do with the
// cluster's time.
func (s *Store) watch(stop <-chan struct{}) {
	tick := time.NewTicker(guardEvery) //nolint:forbidigo // see above
	defer tick.Stop()
	keep := true
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if err := s.guard.note(store.Revision(s.head.Load())); err != nil {
				slog.Warn("write head guard", "err", err)
			}
			if !keep {
				continue
			}
			if err := s.ballast.keep(); err != nil {
				slog.Warn("take ballast", "err", err)
				keep = false // the next try would fail too
			}
		}
	}
}

// note writes the head. It renames a new file, so that a kill leaves either the old or the new number.
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
