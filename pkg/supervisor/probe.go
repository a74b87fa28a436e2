package supervisor

import (
	"os"

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
	spec := &wire.Spec{ID: "probe", Address: address, Folder: s.root, Env: role.Inherited()}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	defer null.Close()
	child, err := s.fork(noCgroup, spec, []string{program.Prefix + "probe", address}, []*os.File{null, null, null}, false)
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
