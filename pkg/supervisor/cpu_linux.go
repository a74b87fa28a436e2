package supervisor

import (
	"fmt"
	"os"
)

// cpuPeriod is the period of CPU limits in microseconds, as in Kubernetes; minQuota is the least that the kernel accepts.
const (
	cpuPeriod = 100_000
	minQuota  = 1_000
)

// cpuQuota returns the CPU time of a period for a limit in thousandths of a CPU.
func cpuQuota(milliCPU int64) int64 { return max(milliCPU*cpuPeriod/1000, minQuota) }

// enableCPU makes the kernel limit the CPU time of cgroups below that of this process. It reports whether it does, in either version.
func enableCPU(root, directory string) bool {
	const limit = 1000
	if parent := ownCgroup(); parent != "" {
		_ = os.WriteFile(parent+"/cgroup.subtree_control", []byte("+cpu"), 0) // refused, if it is not possible
	}
	if g := makeCgroup(ownCgroup(), root, directory); g != noCgroup {
		defer func() { _ = g.remove() }() // an empty one does no harm
		if g.limitCPU(limit) {
			return true
		}
	}
	g := makeCPUGroup(root, directory, limit)
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
func makeCPUGroup(root, directory string, milliCPU int64) cgroup {
	g := makeController("cpu", root, directory)
	if g != noCgroup && (g.set("cpu.cfs_period_us", cpuPeriod) != nil || g.set("cpu.cfs_quota_us", cpuQuota(milliCPU)) != nil) {
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
