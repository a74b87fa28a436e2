package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// makeController creates a container's cgroup of version 1 for a controller. It returns noCgroup where it can't.
func makeController(name, root, directory string) cgroup {
	parent := ownController(name)
	if parent == "" {
		return noCgroup
	}
	g := cgroupBelow(parent, root, directory)
	if err := os.Mkdir(string(g), 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // a killed supervisor may have left an empty one
		return noCgroup
	}
	return g
}

// add moves a process into the cgroup.
func (g cgroup) add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// ownController returns the directory of the cgroup of version 1 that this process is in for a controller, or "" if it can't be found or
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
	directory := controllerDir(string(cgroups), string(mounts), name)
	if directory == "" || unix.Access(directory, unix.W_OK) != nil || !slices.Contains(readPIDs(directory), os.Getpid()) {
		return ""
	}
	return directory
}

// controllerDir is cgroupDir for a controller of version 1.
func controllerDir(cgroups, mounts, name string) string {
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

// dropEmptyGroups removes the cgroups without a process that a killed supervisor over the directory root has left. It also removes the empty
// ones of older versions, whose names do not have the directory: only killed supervisors leave them empty for more than a moment.
func dropEmptyGroups(root string) {
	parents := []string{ownCgroup()}
	for _, name := range []string{"cpu", "memory", "pids"} {
		parents = append(parents, ownController(name))
	}
	for _, parent := range parents {
		if parent == "" {
			continue
		}
		for _, g := range groupsBelow(parent, func(name string) bool { return ownGroup(root, name) || ofOlderVersion(name) }) {
			for _, inPod := range groupsBelow(string(g), func(name string) bool { return ownGroup(root, name) }) {
				inPod.removeIfEmpty()
			}
			g.removeIfEmpty()
		}
	}
}

// ofOlderVersion reports whether a cgroup of that name belongs to a container of a version that did not put the supervisor's directory into names.
func ofOlderVersion(name string) bool {
	hash, ok := strings.CutPrefix(name, "minikctl-")
	_, err := strconv.ParseUint(hash, 16, 64)
	return ok && len(hash) == 16 && err == nil
}

// ownGroup reports whether a cgroup of that name belongs to the supervisor over root.
func ownGroup(root, name string) bool { return strings.HasPrefix(name, groupPrefix(root)) }

// groupsBelow returns the cgroups below parent whose names match.
func groupsBelow(parent string, match func(name string) bool) []cgroup {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil
	}
	var all []cgroup
	for _, e := range entries {
		if match(e.Name()) {
			all = append(all, cgroup(parent+"/"+e.Name()))
		}
	}
	return all
}

// setMemory limits the memory of a cgroup of version 1; 0: it has no limit. As in Kubernetes, processes may not use swap instead.
func (g cgroup) setMemory(limit int64) error {
	if limit == 0 {
		limit = -1
	}
	const withSwap = "memory.memsw.limit_in_bytes"
	// The limit with swap may not be below the one without. Kernels without the accounting of swap lack the file.
	old, counted := number(g.file(withSwap), "")
	_ = g.set(withSwap, -1)
	if err := g.set("memory.limit_in_bytes", limit); err != nil {
		if counted {
			_ = g.set(withSwap, old) // it was the limit a moment ago
		}
		return err
	}
	_ = g.set(withSwap, limit)
	return nil
}

// makeMemoryGroup creates a container's cgroup of version 1 with a memory limit. It returns noCgroup where it can't.
func makeMemoryGroup(root, directory string, limit int64) cgroup {
	g := makeController("memory", root, directory)
	if g != noCgroup && g.setMemory(limit) != nil {
		_ = g.remove()
		return noCgroup
	}
	return g
}

// podGroup returns the name of the cgroup of a pod, as cgroupBelow takes it.
func podGroup(pod string) string { return "pod " + pod }

// makePodGroup creates the cgroup of version 2 of a pod, if it is missing, with a limit of its processes. It returns noCgroup where it can't.
func makePodGroup(root, pod string, limit int64) cgroup {
	parent := ownCgroup()
	if parent == "" {
		return noCgroup
	}
	g := cgroupBelow(parent, root, podGroup(pod))
	if err := os.Mkdir(string(g), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return noCgroup
	}
	if g.set(pidsFile, limit) != nil {
		_ = syscall.Rmdir(string(g)) // refused, if another container is in it
		return noCgroup
	}
	for _, name := range []string{"cpu", "memory"} {
		_ = g.write("cgroup.subtree_control", "+"+name) // refused, if it is not possible
	}
	return g
}

// makePodController is makePodGroup for version 1.
func makePodController(root, pod string, limit int64) cgroup {
	g := makeController("pids", root, podGroup(pod))
	if g != noCgroup && g.set(pidsFile, limit) != nil {
		_ = syscall.Rmdir(string(g))
		return noCgroup
	}
	return g
}

// removeIfEmpty removes a cgroup unless it has processes.
func (g cgroup) removeIfEmpty() {
	if g != noCgroup {
		_ = syscall.Rmdir(string(g))
	}
}

// pidsFile is the file of the limit of a cgroup's processes and threads.
const pidsFile = "pids.max"

// enablePIDs makes the kernel limit the processes of pods. It reports whether it does, in either version.
func enablePIDs(root string) bool {
	const limit = 1000
	if parent := ownCgroup(); parent != "" {
		_ = os.WriteFile(parent+"/cgroup.subtree_control", []byte("+pids"), 0) // refused, if it is not possible
	}
	g := makePodGroup(root, "probe", limit)
	if g == noCgroup {
		g = makePodController(root, "probe", limit)
	}
	g.removeIfEmpty()
	return g != noCgroup
}
