package launch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// A container's process starts in a mount namespace of its own, which shows what the machine's does. view adds the container's
// mounts to it. A mount at a path that the machine lacks needs a mount point, and the machine's directories stay as they are. So the
// innermost directory that exists is mirrored: a directory of the container takes its place, in which each entry of the original is bound.
// What the container creates beside these entries is in its own directory.
//
// Each process that is started in the container later has a namespace of its own with the same mounts: without privileges, a
// process can't join the namespace of another one. That is why the mirrors are directories on disk and the steps are recorded.
type view struct {
	directory string // for the mirrors and the record; belongs to the container
	steps     []step // taken so far
}

// step binds Source to Target, or puts Mirror in the place of Target.
type step struct {
	Target string
	Mirror string   `json:",omitempty"`
	Names  []string `json:",omitempty"` // the entries of Target that are bound in Mirror
	Source string   `json:",omitempty"`

	ReadOnly    bool   `json:",omitempty"`
	Recursive   bool   `json:",omitempty"` // ReadOnly also for mounts below Source
	Propagation string `json:",omitempty"`

	Writable []string `json:",omitempty"` // if not empty: everything from Target on is made read-only except these, outer ones first
}

const recordFile = "mounts.json"

// mount shows the mounts of a container in the mount namespace of this process. The directory l.MountDir belongs to the container: the
// first call creates it, and later ones repeat the mounts of the first.
func mount(l *wire.Launch) error {
	// What the machine mounts and unmounts later is shown, and nothing that is mounted here is shown to the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("change the propagation of mounts: %w", err)
	}
	v := &view{directory: l.MountDir}
	recorded, err := os.ReadFile(v.directory + "/" + recordFile)
	switch {
	case err == nil:
		return v.repeat(recorded)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := v.makeDir(); err != nil {
		return err
	}
	sources := make([]source, len(l.Mounts))
	for i, m := range l.Mounts {
		if sources[i], err = openSource(m); err != nil {
			return fmt.Errorf("mount %s: %w", m.Path, err)
		}
	}
	slices.SortStableFunc(sources, func(a, b source) int { return cmp.Compare(a.Path, b.Path) }) // outer ones first
	for _, m := range sources {
		if err := v.add(m); err != nil {
			return fmt.Errorf("mount %s: %w", m.Path, err)
		}
	}
	if l.Security.MaskPaths {
		if err := v.mask(); err != nil {
			return err
		}
	}
	if !l.Security.ReadOnlyRoot {
		return v.record()
	}
	last, err := rootProtection(l)
	if err != nil {
		return err
	}
	v.steps = append(v.steps, last)
	if err := v.record(); err != nil { // before the directory is read-only
		return err
	}
	return last.protectExcept()
}

// source is a mount with a copy of its source, which is in no place yet. The sources are copied before the first mount, which could hide
// others of them: a container may have its own /etc/hosts, and the machine's at another path.
type source struct {
	wire.Mount
	tree      int // a descriptor
	directory bool
}

func openSource(m wire.Mount) (source, error) {
	info, err := os.Stat(m.Host)
	if errors.Is(err, fs.ErrNotExist) { // a host path without a type
		if err = os.MkdirAll(m.Host, 0o755); err == nil {
			info, err = os.Stat(m.Host)
		}
	}
	if err != nil {
		return source{}, err
	}
	tree, err := copyTree(m.Host)
	return source{m, tree, info.IsDir()}, err
}

// copyTree returns a descriptor of a copy of the mounts from path on.
func copyTree(path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, os.NewSyscallError("open_tree", err)
	}
	return fd, nil
}

// pointFile is the empty file that all mount points for files are links to: a link takes a tenth of the time of a new file.
const pointFile = "point"

func (v *view) makeDir() error {
	if err := os.MkdirAll(v.directory, 0o711); err != nil {
		return err
	}
	return os.WriteFile(v.directory+"/"+pointFile, nil, 0o644)
}

func (v *view) record() error {
	data, err := json.Marshal(v.steps)
	if err != nil {
		return err
	}
	tmp := v.directory + "/" + recordFile + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, v.directory+"/"+recordFile)
}

func (v *view) repeat(recorded []byte) error {
	var steps []step
	if err := json.Unmarshal(recorded, &steps); err != nil {
		return fmt.Errorf("read the mounts of the container: %w", err)
	}
	trees := make([]int, len(steps))
	for i, s := range steps {
		if s.Source == "" {
			continue
		}
		var err error
		if trees[i], err = copyTree(s.Source); err != nil {
			return fmt.Errorf("mount %s: %w", s.Target, err)
		}
	}
	for i, s := range steps {
		if err := s.take(trees[i]); err != nil {
			return fmt.Errorf("mount %s: %w", s.Target, err)
		}
	}
	return nil
}

// add mounts m at its path, after it has made the mount point.
func (v *view) add(m source) error {
	outer, rest, err := deepest(m.Path)
	if err != nil {
		return err
	}
	if within(outer, "/proc") {
		return errors.New("the path is inside /proc")
	}
	target := outer
	if rest != "" {
		if target, err = v.makeMountPoint(outer, rest, m.directory); err != nil {
			return err
		}
	}
	s := step{Target: target, Source: m.Host, ReadOnly: m.ReadOnly, Recursive: m.Recursive, Propagation: m.Propagation}
	v.steps = append(v.steps, s)
	return s.take(m.tree)
}

func within(path, directory string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(directory, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// makeMountPoint makes the directory or the file outer/rest, and mirrors outer if it belongs to the machine.
func (v *view) makeMountPoint(outer, rest string, directory bool) (string, error) {
	if !v.belongs(outer) {
		if err := v.mirror(outer); err != nil {
			return "", err
		}
	}
	path := strings.TrimSuffix(outer, "/") + "/" + rest
	if directory {
		return path, os.MkdirAll(path, 0o755)
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		if err := os.MkdirAll(path[:i], 0o755); err != nil {
			return "", err
		}
	}
	return path, v.makeFile(path)
}

// makeFile makes an empty file. Volumes may be in other file systems, which have no links to pointFile.
func (v *view) makeFile(path string) error {
	if os.Link(v.directory+"/"+pointFile, path) == nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// belongs reports whether a directory belongs to the container: it is a mirror or a mount, or is in one and not an entry of the machine.
func (v *view) belongs(directory string) bool {
	inner, names := "", []string(nil)
	for _, s := range v.steps {
		if within(directory, s.Target) && len(s.Target) >= len(inner) {
			inner, names = s.Target, s.Names
		}
	}
	if inner == "" {
		return false
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(directory, inner), "/")
	first, _, _ := strings.Cut(rest, "/")
	return first == "" || !slices.Contains(names, first)
}

// mirror puts a directory of the container in the place of a directory of the machine.
func (v *view) mirror(directory string) error {
	s := step{Target: directory, Mirror: v.directory + "/" + strconv.Itoa(len(v.steps))}
	if err := os.Mkdir(s.Mirror, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		bound, err := v.placeholder(directory+"/"+e.Name(), s.Mirror+"/"+e.Name(), e.Type())
		if err != nil {
			return err
		}
		if bound {
			s.Names = append(s.Names, e.Name())
		}
	}
	if err := copyAccess(directory, s.Mirror); err != nil {
		return err
	}
	v.steps = append(v.steps, s)
	return s.take(-1)
}

// copyAccess gives the directory to the mode of from, and its owner as far as this process may.
func copyAccess(from, to string) error {
	var stat unix.Stat_t
	if err := unix.Stat(from, &stat); err != nil {
		return err
	}
	_ = os.Lchown(to, int(stat.Uid), int(stat.Gid))
	return unix.Chmod(to, stat.Mode&0o7777)
}

// placeholder makes what an entry of a mirrored directory is bound to, and reports whether it has to be bound. A link is copied.
func (v *view) placeholder(original, path string, kind fs.FileMode) (bind bool, err error) {
	switch {
	case kind&fs.ModeSymlink != 0:
		to, err := os.Readlink(original)
		if err != nil {
			return false, err
		}
		return false, os.Symlink(to, path)
	case kind.IsDir():
		return true, os.Mkdir(path, 0o755)
	}
	return true, v.makeFile(path)
}

// take mounts. tree is a copy of the source's mounts, if the step has a source.
func (s step) take(tree int) error {
	switch {
	case len(s.Writable) > 0:
		return s.protectExcept()
	case s.Mirror != "" && s.Target == "/":
		return s.changeRoot()
	case s.Mirror != "":
		return s.putMirror()
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, s.Target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	if err := s.propagate(); err != nil || !s.ReadOnly {
		return err
	}
	return s.protect()
}

// propagate makes the mount private, or lets it receive what the machine mounts below its source.
func (s step) propagate() error {
	kind := uintptr(unix.MS_PRIVATE)
	switch s.Propagation {
	case wire.HostToContainer:
		kind = unix.MS_SLAVE
	case wire.Bidirectional:
		kind = unix.MS_SHARED
	}
	return unix.Mount("", s.Target, "", unix.MS_REC|kind, "")
}

// protect makes the mount read-only, and keeps its other flags: without privileges they can't be removed.
func (s step) protect() error {
	if s.Recursive {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		return unix.MountSetattr(unix.AT_FDCWD, s.Target, unix.AT_RECURSIVE, &attr)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(s.Target, &stat); err != nil {
		return err
	}
	const kept = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME
	return unix.Mount("", s.Target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|uintptr(stat.Flags)&kept, "")
}

// putMirror binds the mirror to Target, and the original entries in it.
func (s step) putMirror() error {
	original, err := unix.Open(s.Target, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(original)
	if err := unix.Mount(s.Mirror, s.Target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return s.bindEntries("/proc/self/fd/"+strconv.Itoa(original), s.Target)
}

// changeRoot makes the mirror the root directory of this process.
func (s step) changeRoot() error {
	if err := unix.Mount(s.Mirror, s.Mirror, "", unix.MS_BIND, ""); err != nil { // a new root must be a mount
		return err
	}
	// Or the entry that holds the mirror would show what is bound in it once more.
	if err := unix.Mount("", s.Mirror, "", unix.MS_UNBINDABLE, ""); err != nil {
		return err
	}
	if err := s.bindEntries("", s.Mirror); err != nil {
		return err
	}
	if err := os.Chdir(s.Mirror); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is mounted over the new one
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return os.Chdir("/")
}

// bindEntries binds the entries of a directory in another one. Those that have been removed meanwhile are left out.
func (s step) bindEntries(from, to string) error {
	for _, name := range s.Names {
		err := unix.Mount(from+"/"+name, to+"/"+name, "", unix.MS_BIND|unix.MS_REC, "")
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("show %s: %w", name, err)
		}
	}
	return nil
}

// deepest returns the innermost directory or file on the way to path that exists, without links in its own path, and the rest of the path.
func deepest(path string) (existing, rest string, err error) {
	existing = path
	for {
		real, err := realPath(existing)
		if err == nil {
			return real, rest, nil
		}
		if !errors.Is(err, unix.ENOENT) || existing == "/" {
			return "", "", err
		}
		i := strings.LastIndexByte(existing, '/')
		if rest != "" {
			rest = "/" + rest
		}
		rest = existing[i+1:] + rest
		existing = existing[:max(i, 1)]
	}
}

// realPath returns the path of an existing file without links.
func realPath(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

func setHostname(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return nil
}
