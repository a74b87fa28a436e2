package kubelet

import "golang.org/x/sys/unix"

func memorySize() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

func diskSize(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(existing(dir), &st) != nil {
		return 0
	}
	return int64(st.Blocks) * int64(st.Bsize)
}

// readPressure measures what the disk of dir has available. Memory and process IDs are unknown here.
func readPressure(dir string) pressure {
	var p pressure
	var fs unix.Statfs_t
	if unix.Statfs(existing(dir), &fs) == nil {
		p.disk = supply{int64(fs.Bavail) * int64(fs.Bsize), int64(fs.Blocks) * int64(fs.Bsize)}
		p.inodes = supply{int64(fs.Ffree), int64(fs.Files)}
	}
	return p
}

func kernelVersion() string {
	v, err := unix.Sysctl("kern.osrelease")
	if err != nil {
		return ""
	}
	return v
}
