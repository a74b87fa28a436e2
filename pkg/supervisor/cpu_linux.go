package supervisor

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuPeriod is the period of CPU limits in microseconds, as in Kubernetes; minQuota is the least that the kernel accepts.
const (
	cpuPeriod = 100_000
	minQuota  = 1_000
)

// cpuQuota returns the CPU time of a period for a limit in thousandths of a CPU.
func cpuQuota(milliCPU int64) int64 { return max(milliCPU*cpuPeriod/1000, minQuota) }

// enableCPU makes the kernel limit the CPU time of cgroups below that of this process. It reports whether it does, in either version.
func enableCPU(folder string) bool {
	const limit = 1000
	if parent := ownCgroup(); parent != "" {
		_ = os.WriteFile(parent+"/cgroup.subtree_control", []byte("+cpu"), 0) // refused, if it is not possible
	}
	if g := makeCgroup(folder); g != noCgroup {
		defer func() { _ = g.remove() }() // an empty one does no harm
		if g.limitCPU(limit) {
			return true
		}
	}
	g := makeCPUGroup(folder, limit)
	_ = g.remove()
	return g != noCgroup
}

// limitCPU limits the CPU time of a cgroup of version 2; 0: it has no limit. It reports whether the kernel does.
func (g cgroup) limitCPU(milliCPU int64) bool {
	if g == noCgroup {
		return false
	}
	if milliCPU == 0 {
		return g.write("cpu.max", fmt.Sprintf("max %d", cpuPeriod)) == nil
	}
	return g.write("cpu.max", fmt.Sprintf("%d %d", cpuQuota(milliCPU), cpuPeriod)) == nil
}

// makeCPUGroup creates a container's cgroup of version 1 with a CPU limit. It returns noCgroup where it can't.
func makeCPUGroup(folder string, milliCPU int64) cgroup {
	parent := ownController("cpu")
	if parent == "" {
		return noCgroup
	}
	g := cgroupBelow(parent, folder)
	_ = os.Remove(string(g)) // a killed supervisor may have left an empty one
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return noCgroup
	}
	if g.set("cpu.cfs_period_us", cpuPeriod) != nil || g.set("cpu.cfs_quota_us", cpuQuota(milliCPU)) != nil {
		_ = g.remove()
		return noCgroup
	}
	return g
}

// setQuota changes the limit of a cgroup of version 1; 0: none.
func (g cgroup) setQuota(milliCPU int64) error {
	if milliCPU == 0 {
		return g.set("cpu.cfs_quota_us", -1)
	}
	return g.set("cpu.cfs_quota_us", cpuQuota(milliCPU))
}

// add moves a process into the cgroup.
func (g cgroup) add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// ownController returns the folder of the cgroup of version 1 that this process is in for a controller, or "" if it can't be found or
// this process can't create cgroups in it.
func ownController(name string) string {
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	folder := controllerFolder(string(cgroups), string(mounts), name)
	if folder == "" || unix.Access(folder, unix.W_OK) != nil || !slices.Contains(readPIDs(folder), os.Getpid()) {
		return ""
	}
	return folder
}

// controllerFolder is cgroupFolder for a controller of version 1.
func controllerFolder(cgroups, mounts, name string) string {
	own, found := "", false
	for line := range strings.Lines(cgroups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), name) {
			own, found = f[2], true
		}
	}
	if !found {
		return ""
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, super := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(super) < 3 || super[0] != "cgroup" || !slices.Contains(strings.Split(super[2], ","), name) {
			continue
		}
		if below, ok := strings.CutPrefix(own, strings.TrimSuffix(fields[3], "/")); ok && (below == "" || below[0] == '/') {
			return path.Clean(fields[4] + below)
		}
	}
	return ""
}
