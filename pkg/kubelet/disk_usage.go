package kubelet

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DiskUsage is what files take on a disk.
type DiskUsage struct{ Bytes, Inodes int64 }

// Add adds the files of o.
func (d *DiskUsage) Add(o DiskUsage) {
	d.Bytes += o.Bytes
	d.Inodes += o.Inodes
}

// MeasureDisk returns what a file, or a directory with everything in it, takes on disk. It follows a link that path is, and no others. A file
// with several names counts once. Files that can't be read, or are removed meanwhile, do not count.
func MeasureDisk(path string) DiskUsage {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	type file struct{ dev, ino uint64 }
	var sum DiskUsage
	seen := map[file]bool{}
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			f := file{uint64(st.Dev), st.Ino}
			if seen[f] {
				return nil
			}
			seen[f] = true
		}
		const block = 512
		sum.Add(DiskUsage{Bytes: st.Blocks * block, Inodes: 1})
		return nil
	})
	return sum
}

// measureFiles returns what the files that match a pattern take on disk.
func measureFiles(pattern string) DiskUsage {
	var sum DiskUsage
	files, _ := filepath.Glob(pattern) // fails only on a bad pattern
	for _, f := range files {
		if info, err := os.Lstat(f); err == nil && info.Mode().IsRegular() {
			sum.Add(MeasureDisk(f))
		}
	}
	return sum
}
