package supervisor

import (
	"os"
	"runtime"

	"github.com/minikctl/minikctl/pkg/supervisor/program"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// probe tests, once, whether containers can have their own addresses: a program that listens on the unspecified address
// must end up listening on the given one. It returns the reason why not, or "".
func (s *supervisor) probe(address string) string {
	if address == "" {
		return ""
	}
	s.probed.Do(func() { s.refused = s.tryAddress(address) })
	return s.refused
}

func (s *supervisor) tryAddress(address string) string {
	spec := &wire.Spec{ID: "probe", Address: address, StateDir: s.root, Env: role.Inherited()}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	defer null.Close()
	child, err := s.fork(noCgroup, noNamespaces, spec, []string{program.Prefix + "probe", address}, []*os.File{null, null, null}, false)
	if err != nil {
		return err.Error()
	}
	child.filtered = func(notify *os.File) error { return s.listenExec(&container{spec: spec}, child, notify) }
	if err := child.release(); err != nil {
		<-child.exited
		return err.Error()
	}
	status := <-child.exited
	switch {
	case child.refused != "":
		return child.refused
	case status.ExitStatus() != 0:
		return "the address that a program binds can't be changed"
	}
	return ""
}

// probeNamespaces tests whether the kernel enforces limits of memory, CPU time and processes, and how containers can have their mounts at
// paths that the machine lacks.
func (s *supervisor) probeNamespaces() {
	defer close(s.namespacesProbed)
	dropEmptyGroups(s.root)
	dir := s.root + "/run/probe"
	s.memoryEnforced, s.cpuEnforced, s.pidsEnforced = enableMemory(s.root, dir), enableCPU(s.root, dir), enablePIDs(s.root)
	s.namespacesRefused = "not available on " + runtime.GOOS
	for _, n := range possibleNamespaces() {
		if s.namespacesRefused = s.tryMount(n); s.namespacesRefused == "" {
			s.namespaces = n
			return
		}
	}
}

func (s *supervisor) tryMount(n namespaces) (refused string) {
	dir := s.root + "/run/probe"
	if err := os.RemoveAll(dir); err != nil { // left by a killed supervisor
		return err.Error()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	spec := &wire.Spec{
		ID: "probe", StateDir: dir, Env: role.Inherited(),
		Mounts: []wire.Mount{{Path: "/minikctl.dev/probe", Host: dir}},
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	defer null.Close()
	child, err := s.fork(noCgroup, n, spec, []string{program.Prefix + "probe-mount", spec.Mounts[0].Path}, []*os.File{null, null, null}, false)
	if err != nil {
		return err.Error()
	}
	child.launch.Filter = wire.NoFilter
	if err := child.release(); err != nil {
		<-child.exited
		return err.Error()
	}
	if status := <-child.exited; status.ExitStatus() != 0 {
		return "a mounted directory does not appear"
	}
	return ""
}
