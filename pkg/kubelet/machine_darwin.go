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

func kernelVersion() string {
	v, err := unix.Sysctl("kern.osrelease")
	if err != nil {
		return ""
	}
	return v
}
