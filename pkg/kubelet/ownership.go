package kubelet

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// ownership makes the fsGroup of a pod the owner of the files of a volume.
type ownership struct {
	group      *int64 // nil: owners stay as they are
	readOnly   bool   // the group may only read
	onMismatch bool   // leave a volume alone whose top directory is right
}

// ownershipOf returns the ownership of a pod's volumes. Only root can give files to any group: the API has warned others.
func ownershipOf(pod *corev1.Pod, readOnly bool) ownership {
	s := pod.Spec.SecurityContext
	if s == nil || s.FSGroup == nil || !isRoot() {
		return ownership{}
	}
	policy := s.FSGroupChangePolicy
	return ownership{group: s.FSGroup, readOnly: readOnly, onMismatch: policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch}
}

// The permissions that the group gets, beside those that files have.
const (
	groupReadWrite = 0o660
	groupRead      = 0o440
	groupEnter     = 0o110 // of directories
)

func (o ownership) mode(info fs.FileInfo) fs.FileMode {
	mode := fs.FileMode(groupReadWrite)
	if o.readOnly {
		mode = groupRead
	}
	if info.IsDir() {
		mode |= groupEnter | fs.ModeSetgid
	}
	return info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSetuid|fs.ModeSticky) | mode
}

// apply changes everything from path on.
func (o ownership) apply(path string) error {
	if o.group == nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(path) // an emptyDir in memory is a link
	if err != nil {
		return err
	}
	return filepath.WalkDir(real, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return o.applyTo(path)
	})
}

// applyTo changes one file or directory. A link has an owner, and no permissions of its own.
func (o ownership) applyTo(path string) error {
	if o.group == nil {
		return nil
	}
	if err := os.Lchown(path, -1, int(*o.group)); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	return os.Chmod(path, o.mode(info))
}

// applyOnce is apply for a volume that outlives pods, unless the policy lets it alone.
func (o ownership) applyOnce(path string) error {
	if o.group == nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if o.onMismatch && groupOf(info) == *o.group && o.mode(info) == info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSetuid|fs.ModeSticky) {
		return nil
	}
	return o.apply(path)
}

func groupOf(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Gid)
	}
	return -1
}
