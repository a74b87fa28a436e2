package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// cgroup is the directory of a container's cgroup, of version 2 unless its name says otherwise. The methods of noCgroup have no effect.
type cgroup string

const noCgroup cgroup = ""

// makeCgroup creates a container's cgroup below parent, which is the cgroup of this process or that of the container's pod; "": none. root is
// the supervisor's directory and directory the container's. It returns noCgroup without cgroups of version 2, without permission to create one, and on
// kernels that cannot kill a cgroup (before 5.14).
func makeCgroup(parent, root, directory string) cgroup {
	if parent == "" {
		return noCgroup
	}
	g := cgroupBelow(parent, root, directory)
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return noCgroup
	}
	if _, err := os.Stat(g.file("cgroup.kill")); err != nil {
		_ = g.remove()
		return noCgroup
	}
	return g
}

// cgroupBelow returns the cgroup below parent that belongs to a container's directory, or to another name, of the supervisor over root.
func cgroupBelow(parent, root, directory string) cgroup {
	return cgroup(fmt.Sprintf("%s/%s%016x", parent, groupPrefix(root), hash64(directory)))
}

// groupPrefix begins the names of all cgroups of the supervisor over root.
func groupPrefix(root string) string { return fmt.Sprintf("minikctl-%016x-", hash64(root)) }

func hash64(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // never fails
	return hash.Sum64()
}

// memoryFile is the file of a cgroup's memory limit.
const memoryFile = "memory.max"

// enableMemory makes the kernel limit the memory of the cgroups below that of this process. It reports whether it does, in either version. In
// version 2, a cgroup with processes can pass the controller on only if it is the root or has done so before.
func enableMemory(root, directory string) bool {
	const limit = 1 << 30
	if parent := ownCgroup(); parent != "" {
		_ = os.WriteFile(parent+"/cgroup.subtree_control", []byte("+memory"), 0) // refused, if it is not possible
	}
	if g := makeCgroup(ownCgroup(), root, directory); g != noCgroup {
		defer func() { _ = g.remove() }() // an empty one does no harm
		if g.limitMemory(limit) {
			return true
		}
	}
	g := makeMemoryGroup(root, directory, limit)
	_ = g.remove()
	return g != noCgroup
}

// limitMemory makes the kernel kill all processes of the cgroup at once when they use more than limit bytes; 0: they may use any number. It
// reports whether the kernel does. As in Kubernetes, they may not use swap instead.
func (g cgroup) limitMemory(limit int64) bool {
	if g == noCgroup {
		return false
	}
	if limit == 0 {
		return g.write(memoryFile, "max") == nil
	}
	for file, value := range map[string]int64{"memory.oom.group": 1, "memory.swap.max": 0} {
		_ = g.set(file, value) // older kernels and those without swap lack them
	}
	return g.set(memoryFile, limit) == nil
}

// set writes a number to a file that the kernel has made.
func (g cgroup) set(file string, value int64) error {
	return g.write(file, strconv.FormatInt(value, 10))
}

func (g cgroup) write(file, text string) error {
	f, err := os.OpenFile(g.file(file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// outOfMemory reports whether the kernel has killed a process of the cgroup at its memory limit.
func (g cgroup) outOfMemory() bool {
	if g == noCgroup {
		return false
	}
	kills, ok := number(g.file("memory.events"), "oom_kill ")
	if !ok {
		kills, _ = number(g.file("memory.oom_control"), "oom_kill ") // of version 1
	}
	return kills > 0
}

// ownCgroup returns the directory of the cgroup that this process is in, or "" if it can't be found.
func ownCgroup() string {
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	directory := cgroupDir(string(cgroups), string(mounts))
	if directory == "" {
		return ""
	}
	// In another cgroup namespace, the paths in the mount have another meaning.
	if !slices.Contains(readPIDs(directory), os.Getpid()) {
		return ""
	}
	return directory
}

// cgroupDir finds a process's cgroup of version 2 by the content of its files /proc/PID/cgroup and /proc/PID/mountinfo.
func cgroupDir(cgroups, mounts string) string {
	path, found := "", false
	for line := range strings.Lines(cgroups) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path, found = strings.TrimSuffix(rest, "\n"), true
		}
	}
	if !found {
		return ""
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		below, ok := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/"))
		if ok && (below == "" || below[0] == '/') {
			return strings.TrimSuffix(fields[4]+below, "/")
		}
	}
	return ""
}

func (g cgroup) file(name string) string { return string(g) + "/" + name }

// start sets attr so that the process starts in the cgroup. The directory that it returns stays open until then.
func (g cgroup) start(attr *syscall.SysProcAttr) (*os.File, error) {
	if g == noCgroup {
		return nil, nil
	}
	directory, err := os.Open(string(g))
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(descriptor(directory))
	return directory, nil
}

// kill sends SIGKILL to all processes of the cgroup and of its descendants.
func (g cgroup) kill() error {
	err := os.WriteFile(g.file("cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// populated reports whether the cgroup or a descendant has a living process.
func (g cgroup) populated() bool {
	if g == noCgroup {
		return false
	}
	b, err := os.ReadFile(g.file("cgroup.events"))
	return err == nil && bytes.Contains(b, []byte("populated 1"))
}

// pids lists the processes of the cgroup and of its descendants.
func (g cgroup) pids() []int {
	if g == noCgroup {
		return nil
	}
	pids := readPIDs(string(g))
	for _, child := range g.children() {
		pids = append(pids, child.pids()...)
	}
	return pids
}

func readPIDs(directory string) []int {
	b, err := os.ReadFile(directory + "/cgroup.procs")
	if err != nil {
		return nil // it has ended
	}
	var pids []int
	for line := range strings.Lines(string(b)) {
		if pid, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// children lists the cgroups that the container has created in its own.
func (g cgroup) children() []cgroup {
	entries, err := os.ReadDir(string(g))
	if err != nil {
		return nil
	}
	var all []cgroup
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, cgroup(g.file(e.Name())))
		}
	}
	return all
}

// remove removes the empty cgroup and its descendants.
func (g cgroup) remove() error {
	if g == noCgroup {
		return nil
	}
	for _, child := range g.children() {
		if err := child.remove(); err != nil {
			return err
		}
	}
	err := syscall.Rmdir(string(g))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &os.PathError{Op: "rmdir", Path: string(g), Err: err}
}
