//go:build !linux || !(amd64 || arm64)

package supervisor

import (
	"errors"
	"os"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// There are no filters here: containers share the host's addresses, and there is nothing for a keeper to hold.

type listener struct{}

func (*listener) listen() {}

func (*listener) close() {}

func (*listener) unused() bool { return false }

func (s *supervisor) newListener(*container, cgroup, *os.File, *os.File) (*listener, error) {
	return nil, errors.ErrUnsupported
}

func (s *supervisor) listenExec(*container, *child, *os.File) error { return errors.ErrUnsupported }

// routes do nothing: nothing takes them.
type routes struct{}

func (*routes) apply(*wire.Routes) {}

func (*routes) leave() bool { return false }

// routesServed: the supervisor does not receive routes.
const routesServed = false

func newCall() (*os.File, error) { return nil, errors.ErrUnsupported }

func takeTerminal(int) *os.File { return nil }

type keeper struct{}

func newKeeper(*supervisor) *keeper { return &keeper{} }

func (*keeper) connect() map[string]keeping { return nil }

func (*keeper) hold(*container) {}

func (*keeper) drop(string) {}

func (*keeper) end() {}

// Keep does nothing: no supervisor starts a keeper here.
func Keep([]string) error { return nil }
