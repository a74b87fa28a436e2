//go:build !linux

package supervisor

import (
	"os"
	"syscall"
)

// cgroup is always noCgroup here.
type cgroup string

const noCgroup cgroup = ""

func makeCgroup(string, string, string) cgroup { return noCgroup }

func ownCgroup() string { return "" }

func dropEmptyGroups(string) {}

func (cgroup) start(*syscall.SysProcAttr) (*os.File, error) { return nil, nil }

func (cgroup) kill() error { return nil }

func (cgroup) populated() bool { return false }

func (cgroup) pids() []int { return nil }

func enableMemory(string, string) bool { return false }

func makeMemoryGroup(string, string, int64) cgroup { return noCgroup }

func (cgroup) setMemory(int64) error { return nil }

func enablePIDs(string) bool { return false }

func makePodGroup(string, string, int64) cgroup { return noCgroup }

func makePodController(string, string, int64) cgroup { return noCgroup }

func (cgroup) removeIfEmpty() {}

func (cgroup) limitMemory(int64) bool { return false }

func enableCPU(string, string) bool { return false }

func (cgroup) limitCPU(int64) bool { return false }

func makeCPUGroup(string, string, int64) cgroup { return noCgroup }

func (cgroup) setQuota(int64) error { return nil }

func (cgroup) add(int) error { return nil }

func (cgroup) outOfMemory() bool { return false }

func (cgroup) remove() error { return nil }
