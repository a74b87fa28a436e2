package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// maskedPaths show what only the machine's administrator should see. They appear empty.
var maskedPaths = []string{
	"/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
	"/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
}

// readOnlyPaths change the machine when they are written.
var readOnlyPaths = []string{"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"}

// emptyDir is mounted over masked directories.
const emptyDir = "empty"

// mask hides maskedPaths and protects readOnlyPaths, those that the machine has.
func (v *view) mask() error {
	empty := v.directory + "/" + emptyDir
	if err := os.Mkdir(empty, 0o555); err != nil {
		return err
	}
	for _, path := range readOnlyPaths {
		if err := v.cover(step{Target: path, Source: path, ReadOnly: true, Recursive: true}); err != nil {
			return err
		}
	}
	for _, path := range maskedPaths { // after /sys, which some are in
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		s := step{Target: path, Source: os.DevNull}
		if info.IsDir() {
			s = step{Target: path, Source: empty, ReadOnly: true}
		}
		if err := v.cover(s); err != nil {
			return err
		}
	}
	return nil
}

// cover mounts over a path that may be missing.
func (v *view) cover(s step) error {
	if _, err := os.Lstat(s.Target); err != nil {
		return nil
	}
	tree, err := copyTree(s.Source)
	if err == nil {
		err = s.take(tree)
		unix.Close(tree)
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", s.Target, err)
	}
	v.steps = append(v.steps, s)
	return nil
}

// rootProtection is the step that makes everything read-only except the writable mounts, /dev and /proc. Writable mounts stay writable
// below the container's root directory as well, whose links lead to the machine's paths.
func rootProtection(l *wire.Launch) (step, error) {
	s := step{Target: "/", Writable: []string{"/dev", "/proc"}}
	writable := map[string]bool{}
	for _, m := range l.Mounts {
		if m.ReadOnly {
			continue
		}
		path, err := realPath(m.Path)
		if err != nil {
			return s, fmt.Errorf("mount %s: %w", m.Path, err)
		}
		s.Writable = append(s.Writable, path)
		writable[m.Host] = true
	}
	for _, link := range l.Links {
		if path, err := realPath(link.Host); err == nil && writable[link.Host] {
			s.Writable = append(s.Writable, path)
		}
	}
	slices.Sort(s.Writable)
	s.Writable = slices.Compact(s.Writable)
	return s, nil
}

// protectExcept makes Target and all mounts below it read-only except those from the Writable paths on. It copies these before, and
// puts the copies over the paths: a flag that was set everywhere could not be told from one that the machine has set.
func (s step) protectExcept() error {
	trees := make([]int, len(s.Writable))
	for i, path := range s.Writable {
		trees[i] = -1
		tree, err := copyTree(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		trees[i] = tree
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, s.Target, unix.AT_RECURSIVE, &attr); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	for i, path := range s.Writable {
		if trees[i] < 0 {
			continue
		}
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("move_mount %s: %w", path, err)
		}
		unix.Close(trees[i])
	}
	return nil
}
