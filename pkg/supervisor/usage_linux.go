package supervisor

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

const measurable = true

// tick is the unit of CPU times in /proc, which is the same on all architectures that Go supports.
const tick = 10 * time.Millisecond

// used returns what all processes that were ever in the cgroup have used, and the memory of those in it now. Its memory controller may
// be off; then that is the memory of its processes.
func (g cgroup) used() resources {
	if g == noCgroup {
		return resources{}
	}
	usec, _ := number(g.file("cpu.stat"), "usage_usec ")
	used := resources{cpu: time.Duration(usec) * time.Microsecond}
	memory, ok := number(g.file("memory.current"), "")
	if ok {
		inactive, _ := number(g.file("memory.stat"), "inactive_file ") // pages that the kernel can drop
		used.memory = max(0, memory-inactive)
		return used
	}
	for _, pid := range g.pids() {
		used.memory += usedBy(pid).memory
	}
	return used
}

// number returns the number after a prefix of a line of a file.
func number(path, prefix string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// usedBy returns what a process and its reaped children have used, from /proc/PID/stat; nothing for one that has ended.
func usedBy(pid int) resources {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return resources{}
	}
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return resources{}
	}
	f := bytes.Fields(b[end+1:]) // f[0] is field 3 of proc(5)
	const utime, cstime, rss = 14 - 3, 17 - 3, 24 - 3
	if len(f) <= rss {
		return resources{}
	}
	var used resources
	for _, text := range f[utime : cstime+1] {
		n, _ := strconv.ParseInt(string(text), 10, 64) // the kernel writes numbers
		used.cpu += time.Duration(n) * tick
	}
	pages, _ := strconv.ParseInt(string(f[rss]), 10, 64)
	used.memory = pages * int64(os.Getpagesize())
	return used
}
