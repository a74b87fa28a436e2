package kubelet

import "golang.org/x/sys/unix"

func memorySize() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

func diskSize(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(existing(dir), &st) != nil {
		return 0
	}
	return int64(st.Blocks) * st.Bsize
}

func kernelVersion() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
