package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
)

// backups writes backups of a store at an interval and removes those that are too many, too old or too large.
type backups struct {
	BackupConfig
	dir   string
	store store.Store
	clock clock.Clock
}

// run blocks until ctx ends. A backup that fails is logged and tried again after the interval.
func (b backups) run(ctx context.Context) error {
	for clock.Sleep(ctx, b.clock, b.Every.Duration) == nil {
		if err := b.make(ctx); err != nil && ctx.Err() == nil {
			slog.Warn("write backup", "err", err)
		}
	}
	return nil
}

func (b backups) make(ctx context.Context) error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(b.dir, backupName(b.clock.Now()))
	_, err := writeBackup(path, func(w io.Writer) error {
		_, err := backup.Write(ctx, b.store, w)
		return err
	})
	if err != nil {
		return err
	}
	return b.prune()
}

// unfinishedAge is the age from which a backup that is not finished is left over from a process that was killed.
const unfinishedAge = time.Hour

// pruneUnfinished removes what processes that were killed have left of their backups.
func (b backups) pruneUnfinished() error {
	left, err := filepath.Glob(filepath.Join(b.dir, "*.backup"+unfinished))
	for _, path := range left {
		at := madeAt(strings.TrimSuffix(path, unfinished))
		if !at.IsZero() && at.Before(b.clock.Now().Add(-unfinishedAge)) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// prune removes backups beyond the limits, the oldest first. The newest one stays.
func (b backups) prune() error {
	if err := b.pruneUnfinished(); err != nil {
		return err
	}
	all, err := backupsIn(b.dir)
	if err != nil {
		return err
	}
	var size int64
	oldest := b.clock.Now().Add(-b.MaxAge.Duration)
	for i, path := range all {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		size += info.Size()
		old := b.MaxAge.Duration > 0 && madeAt(path).Before(oldest)
		if i > 0 && (i >= b.Keep || old || size > b.MaxSize.Value()) {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove old backup: %w", err)
			}
		}
	}
	return nil
}

// backupsIn returns the backups in a directory, newest first, without files that the user has named.
func backupsIn(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.backup"))
	all = slices.DeleteFunc(all, func(path string) bool { return madeAt(path).IsZero() })
	slices.Sort(all)
	slices.Reverse(all)
	return all, err
}

// madeAt returns when the backup at path was made, by its name (see backupName); the zero time for another name.
func madeAt(path string) time.Time {
	at, err := time.Parse(backupLayout, filepath.Base(path))
	if err != nil {
		return time.Time{}
	}
	return at
}
