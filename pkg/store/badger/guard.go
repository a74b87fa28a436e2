package badger

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/minikctl/minikctl/pkg/store"
)

// guard keeps the newest acknowledged revision in a file outside Badger, so that the next Open finds out when Badger has lost the
// end of a log, or whole tables. It is written after each commit, before the commit is acknowledged. The file survives a kill at
// any instant. A loss of power may leave an older revision in it, but never a newer one than Badger's files, which are synced
// first.
type guard struct {
	path     string
	file     *os.File // nil until the first write
	last     store.Revision
	digested bool // the file is of a version that writes a digest with each commit
}

// readGuard reads the file. Without one, and for a damaged one, last is 0: the digest alone shows what is missing then.
func readGuard(path string) (*guard, error) {
	g := &guard{path: path}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	number, sum, digested := strings.Cut(strings.TrimSuffix(string(b), "\n"), " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || digested && sum != checksum(number) {
		slog.Warn("the store's record of its newest revision is damaged", "file", path)
		return g, nil
	}
	g.last, g.digested = store.Revision(n), digested
	return g, nil
}

func checksum(number string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(number), castagnoli))
}

// note records that revisions up to head are acknowledged. The text always has the same length, and one call writes it in
// place, so a kill leaves either the old or the new text.
func (g *guard) note(head store.Revision) error {
	if g.file == nil {
		f, err := os.OpenFile(g.path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		g.file = f
		if err := syncPath(filepath.Dir(g.path)); err != nil {
			return err
		}
	}
	number := fmt.Sprintf("%020d", head)
	if _, err := g.file.WriteAt([]byte(number+" "+checksum(number)+"\n"), 0); err != nil {
		return err
	}
	if !g.digested {
		g.digested = true
		if err := g.file.Truncate(int64(len(number) + 1 + 2*crc32.Size + 1)); err != nil {
			return err
		}
	}
	g.last = head
	return nil
}

// close syncs the file and closes it.
func (g *guard) close() error {
	if g.file == nil {
		return nil
	}
	return errors.Join(g.file.Sync(), g.file.Close())
}
