package addr

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/filelock"
)

// Dir returns the directory in which the daemons of this user claim ranges.
func Dir() string { return filepath.Join(autostart.UserDir(), "ranges") }

// Claim returns the range that owner has claimed in directory, or claims one. The owner is the absolute path of a daemon's data
// directory. A claim whose owner no longer exists is void. Claim skips ranges in which a socket listens, such as those of other
// users' daemons.
func Claim(directory, owner string) (Range, error) {
	unlock, err := lock(directory)
	if err != nil {
		return 0, fmt.Errorf("claim an address range: %w", err)
	}
	defer unlock()
	taken, err := claims(directory)
	if err != nil {
		return 0, fmt.Errorf("claim an address range: %w", err)
	}
	for r, o := range taken {
		if o == owner {
			return r, nil
		}
	}
	busy := listening()
	start := preferred(owner)
	for i := range int(Last-First) + 1 {
		r := First + Range((int(start-First)+i)%(int(Last-First)+1))
		if _, ok := taken[r]; ok || busy[r] {
			continue
		}
		if err := os.WriteFile(claimFile(directory, r), []byte(owner+"\n"), 0o600); err != nil {
			return 0, fmt.Errorf("claim an address range: %w", err)
		}
		return r, nil
	}
	return 0, fmt.Errorf("claim an address range in %s: %w", directory, ErrExhausted)
}

// Release removes the claim of owner in directory. Idempotent.
func Release(directory, owner string) error {
	if autostart.CheckPrivate(directory) != nil {
		return nil // missing, or a directory in which Claim claims nothing
	}
	unlock, err := lock(directory)
	if err != nil {
		return fmt.Errorf("release an address range: %w", err)
	}
	defer unlock()
	taken, err := claims(directory)
	if err != nil {
		return fmt.Errorf("release an address range: %w", err)
	}
	for r, o := range taken {
		if o == owner {
			if err := os.Remove(claimFile(directory, r)); err != nil {
				return fmt.Errorf("release an address range: %w", err)
			}
			delete(taken, r)
		}
	}
	if len(taken) == 0 {
		return removeDir(directory)
	}
	return nil
}

const lockName = "lock"

// lock locks directory against other daemons, and creates it if it is missing. It tries again if another process removes the directory
// meanwhile.
func lock(directory string) (func(), error) {
	const attempts = 1000
	for i := 0; ; i++ {
		err := makeDir(directory)
		if errors.Is(err, fs.ErrNotExist) && i < attempts {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := filelock.Wait(filepath.Join(directory, lockName), os.O_CREATE|os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return func() { f.Close() }, nil
	}
}

// makeDir creates the directory if it is missing. It refuses a directory in which other users could place links: in the directory for
// temporary files, another user may have created it first.
func makeDir(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	return errors.Join(autostart.CheckPrivate(filepath.Dir(directory)), autostart.CheckPrivate(directory))
}

// removeDir removes the lock and the empty directory, and the parent directory if it is empty, too.
func removeDir(directory string) error {
	if err := os.Remove(filepath.Join(directory, lockName)); err != nil {
		return err
	}
	for _, dir := range []string{directory, filepath.Dir(directory)} {
		err := os.Remove(dir)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return nil // in use, or removed already
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claims returns the owners of all claimed ranges, and removes void claims.
func claims(directory string) (map[Range]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	taken := map[Range]string{}
	for _, e := range entries {
		n, ok := strings.CutPrefix(e.Name(), "127.")
		r, err := strconv.ParseUint(n, 10, 8)
		if !ok || err != nil || !Range(r).Valid() {
			continue
		}
		path := filepath.Join(directory, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		owner := strings.TrimSuffix(string(b), "\n")
		if _, err := os.Stat(owner); owner == "" || errors.Is(err, fs.ErrNotExist) {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		taken[Range(r)] = owner
	}
	return taken, nil
}

func claimFile(directory string, r Range) string {
	return filepath.Join(directory, "127."+strconv.Itoa(int(r)))
}

// preferred returns the range at which the search for owner begins. It spreads the daemons of different users, which don't
// see each other's claims.
func preferred(owner string) Range {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d\x00%s", os.Getuid(), owner)
	return First + Range(h.Sum32()%uint32(Last-First+1))
}

// listening returns the ranges in which a socket is bound, on systems that list sockets in /proc.
func listening() map[Range]bool {
	busy := map[Range]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/udp"} {
		b, err := os.ReadFile(table)
		if err != nil {
			continue // another system: only the claims of this user count
		}
		for line := range strings.Lines(string(b)) {
			if r, ok := rangeOfLine(line); ok {
				busy[r] = true
			}
		}
	}
	return busy
}

// rangeOfLine parses a line such as "  0: 0100007F:1F90 00000000:0000 0A …". It begins with the local address in the byte
// order of the machine, which is little-endian on all platforms of minikctl.
func rangeOfLine(line string) (Range, bool) {
	f := strings.Fields(line)
	if len(f) < 2 || len(f[1]) < 8 || f[1][6:8] != "7F" {
		return 0, false
	}
	n, err := strconv.ParseUint(f[1][4:6], 16, 8)
	return Range(n), err == nil && Range(n).Valid()
}
