package launch

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// keepTerminal leaves f, the supervisor's end of the terminal, open as KeptTerminal.
func keepTerminal(f *os.File) {
	_ = unix.Dup3(int(f.Fd()), wire.KeptTerminal, 0) // fails if the limit of descriptors is lower: then the terminal hangs up when the supervisor dies
	f.Close()
}
