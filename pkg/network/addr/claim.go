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
)

// Folder returns where the daemons of this user claim ranges: $XDG_RUNTIME_DIR/minikctl/ranges, or a folder of the user
// in the machine's folder for temporary files.
func Folder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "minikctl", "ranges")
	}
	return filepath.Join(os.TempDir(), "minikctl-"+strconv.Itoa(os.Getuid()), "ranges")
}

// Claim returns the range that owner has in folder, or gives it one. The owner is the absolute path of a daemon's data
// folder: a claim whose owner is no longer there is void. Ranges in which somebody else listens, such as another user's
// daemon, are passed over.
func Claim(folder, owner string) (Range, error) {
	unlock, err := lock(folder)
	if err != nil {
		return 0, fmt.Errorf("claim an address range: %w", err)
	}
	defer unlock()
	taken, err := claims(folder)
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
		if err := os.WriteFile(claimFile(folder, r), []byte(owner+"\n"), 0o600); err != nil {
			return 0, fmt.Errorf("claim an address range: %w", err)
		}
		return r, nil
	}
	return 0, fmt.Errorf("claim an address range in %s: %w", folder, ErrExhausted)
}

// Release gives up what owner has in folder. Idempotent.
func Release(folder, owner string) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := lock(folder)
	if err != nil {
		return fmt.Errorf("release an address range: %w", err)
	}
	defer unlock()
	taken, err := claims(folder)
	if err != nil {
		return fmt.Errorf("release an address range: %w", err)
	}
	for r, o := range taken {
		if o == owner {
			if err := os.Remove(claimFile(folder, r)); err != nil {
				return fmt.Errorf("release an address range: %w", err)
			}
			delete(taken, r)
		}
	}
	if len(taken) == 0 {
		return removeFolder(folder)
	}
	return nil
}

const lockName = "lock"

// lock keeps other daemons out. The folder may be removed by the one that had the lock, so that the file it stands for
// is looked at again.
func lock(folder string) (func(), error) {
	for {
		if err := makeOwn(folder); err != nil {
			return nil, err
		}
		path := filepath.Join(folder, lockName)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		held, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(held, there) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

// makeOwn makes the folder if it is missing. It refuses one in which others could put links for us to write through: below
// the machine's folder for temporary files anybody may have made it before us.
func makeOwn(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	const byOthers = 0o022
	for _, dir := range []string{filepath.Dir(folder), folder} {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !info.IsDir() || info.Mode()&byOthers != 0 || !ok || int(st.Uid) != os.Getuid() {
			return fmt.Errorf("%s is not a folder that belongs to this user alone", dir)
		}
	}
	return nil
}

// removeFolder removes the empty folder with its lock, and the user's folder above it if that is empty as well.
func removeFolder(folder string) error {
	if err := os.Remove(filepath.Join(folder, lockName)); err != nil {
		return err
	}
	for _, dir := range []string{folder, filepath.Dir(folder)} {
		err := os.Remove(dir)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return nil // somebody else's
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claims reads the owners of all ranges, and removes the void claims.
func claims(folder string) (map[Range]string, error) {
	entries, err := os.ReadDir(folder)
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
		path := filepath.Join(folder, e.Name())
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

func claimFile(folder string, r Range) string {
	return filepath.Join(folder, "127."+strconv.Itoa(int(r)))
}

// preferred spreads the daemons of users who don't see each other's claims.
func preferred(owner string) Range {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d\x00%s", os.Getuid(), owner)
	return First + Range(h.Sum32()%uint32(Last-First+1))
}

// listening tells in which ranges somebody has a socket, where the machine says so.
func listening() map[Range]bool {
	busy := map[Range]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/udp"} {
		b, err := os.ReadFile(table)
		if err != nil {
			continue // another system: the claims of this user have to do
		}
		for line := range strings.Lines(string(b)) {
			if r, ok := rangeOfLine(line); ok {
				busy[r] = true
			}
		}
	}
	return busy
}

// rangeOfLine parses "  0: 0100007F:1F90 00000000:0000 0A …": the local address in the byte order of the machine, which
// is little-endian wherever minikctl is built for.
func rangeOfLine(line string) (Range, bool) {
	f := strings.Fields(line)
	if len(f) < 2 || len(f[1]) < 8 || f[1][6:8] != "7F" {
		return 0, false
	}
	n, err := strconv.ParseUint(f[1][4:6], 16, 8)
	return Range(n), err == nil && Range(n).Valid()
}
