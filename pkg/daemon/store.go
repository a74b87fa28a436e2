package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// hasStore reports whether the last start of the cluster had its store on disk: then a missing one is damage.
func hasStore(p Paths) bool {
	last, err := readSettings(p)
	if err != nil || last == nil || last.Store != "badger" {
		return false
	}
	s, err := ReadState(p)
	return err == nil && slices.Contains(s.Parts, "apiserver")
}

// storeHelp adds to the error of a store that is damaged what to do about it.
func storeHelp(p Paths, err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; nothing was changed. \"minikctl store check --name %s\" checks it, \"minikctl store restore --name %[2]s\" "+
		"replaces it by a backup, and \"minikctl down --purge --name %[2]s\" removes the cluster", err, p.Name)
}

// CheckStore verifies the store of a cluster that does not run, and changes nothing.
func CheckStore(p Paths) (badger.Report, error) {
	if err := stopped(p); err != nil {
		return badger.Report{}, err
	}
	return badger.Check(p.Store, apiserver.Readable(builtin.ResourcesWith(feature.All)))
}

func stopped(p Paths) error {
	if !Exists(p) {
		return fmt.Errorf("there is no cluster %q", p.Name)
	}
	if Alive(p) {
		return fmt.Errorf("cluster %q runs; stop it with: minikctl down --keep-pods --name %[1]s", p.Name)
	}
	return nil
}

// BackupStore writes a backup of a cluster's store to path, "" for a new file in Paths.Backups, and returns the file's path. The
// cluster may run. The directory of path must exist. A file at path is an error, unless overwrite is true: then it is replaced once the
// backup is whole.
func BackupStore(ctx context.Context, p Paths, path string, overwrite bool, now time.Time) (backup.Summary, string, error) {
	if !Exists(p) {
		return backup.Summary{}, "", fmt.Errorf("there is no cluster %q", p.Name)
	}
	if path != "" && !overwrite && exists(path) {
		return backup.Summary{}, "", fmt.Errorf("%s exists already; --force overwrites it", path)
	}
	write := func(w io.Writer) error { return backupStopped(ctx, p, w) }
	if Running(p) {
		write = func(w io.Writer) error { return backupRunning(ctx, p, w) }
	}
	if path == "" {
		if err := os.MkdirAll(p.Backups, 0o700); err != nil {
			return backup.Summary{}, "", err
		}
		path = filepath.Join(p.Backups, backupName(now))
	} else if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return backup.Summary{}, "", fmt.Errorf("write %s: %w", path, err)
	}
	sum, err := writeBackup(path, write)
	return sum, path, err
}

// backupLayout is the layout of the names of backups, which sort by time.
const backupLayout = "20060102T150405.000Z.backup"

// unfinished is what the name of a backup ends with while it is written.
const unfinished = ".new"

func backupName(now time.Time) string { return now.UTC().Format(backupLayout) }

// writeBackup writes a backup to a new file in a directory that exists, reads it again, and renames it to path.
func writeBackup(path string, write func(io.Writer) error) (sum backup.Summary, err error) {
	tmp := path + unfinished
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return sum, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(tmp))
			return
		}
		err = os.Rename(tmp, path)
	}()
	if err := write(f); err != nil {
		return sum, err
	}
	if err := f.Sync(); err != nil {
		return sum, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return sum, err
	}
	return backup.Read(f, func(store.Entry) error { return nil })
}

func backupStopped(ctx context.Context, p Paths, w io.Writer) error {
	s, err := badger.Open(badger.Config{Dir: p.Store, MustExist: true})
	if err != nil {
		return err
	}
	_, err = backup.Write(ctx, s, w)
	return errors.Join(err, s.Close())
}

// backupRunning requests the backup from the daemon over its socket, which identifies this user as the administrator.
func backupRunning(ctx context.Context, p Paths, w io.Writer) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.Socket)
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+apiserver.BackupPath, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("back up cluster %q: the daemon responded with %s", p.Name, res.Status)
	}
	_, err = io.Copy(w, res.Body)
	return err
}

// RestoreStore replaces the store of a cluster that does not run by a backup: the file at path, or the newest in Paths.Backups for
// "". It returns the file's path, and the directory in which it keeps the store that was there ("" for none).
func RestoreStore(p Paths, path string) (sum backup.Summary, file, kept string, err error) {
	if err := stopped(p); err != nil {
		return sum, "", "", err
	}
	if path == "" {
		all, err := backupsIn(p.Backups)
		if err != nil || len(all) == 0 {
			return sum, "", "", errors.Join(err, fmt.Errorf("there are no backups in %s", p.Backups))
		}
		path = all[0]
	}
	f, err := os.Open(path)
	if err != nil {
		return sum, path, "", err
	}
	defer f.Close()
	sum, kept, err = badger.Restore(p.Store, f)
	if err != nil {
		return sum, path, kept, fmt.Errorf("%s: %w", path, err)
	}
	return sum, path, kept, nil
}
