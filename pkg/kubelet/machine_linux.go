package kubelet

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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

// readPressure measures what the machine has available, in memory, on the disk of dir, and of process IDs.
func readPressure(dir string) pressure {
	var p pressure
	var fs unix.Statfs_t
	if unix.Statfs(existing(dir), &fs) == nil {
		p.disk = supply{int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize}
		p.inodes = supply{int64(fs.Ffree), int64(fs.Files)}
	}
	if available, ok := availableMemory(); ok {
		p.memory = supply{available, memorySize()}
	}
	var info unix.Sysinfo_t
	if most, err := strconv.ParseInt(firstLine("/proc/sys/kernel/pid_max"), 10, 64); err == nil && unix.Sysinfo(&info) == nil {
		p.pids = supply{most - int64(info.Procs), most}
	}
	return p
}

// availableMemory returns what the kernel can give to programs without swapping. ok is false where the kernel does not say it.
func availableMemory() (bytes int64, ok bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

func kernelVersion() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
