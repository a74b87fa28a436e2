package early

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// A command that will probably start a daemon starts the daemon process early: before the packages of the command itself
// are initialised, so that both processes initialise at the same time. The daemon process then waits until the command
// sends it the daemon's command line. If the command does not need a daemon after all, the process ends.

// waiting is a daemon process that waits for its command line.
type waiting struct {
	name string
	conn *wire.Conn
}

// prepared is the daemon process that prepareDaemon has started; nil without one, and after the process was used or
// dropped.
var prepared *waiting

// startRequest is the message that a daemon process receives. It comes with two files: one for the daemon's output, one for the
// report of its start.
type startRequest struct{ Args []string }

// waitVariable holds the number of the descriptor on which a daemon process receives its orders.
const waitVariable = "MINIKCTL_WAIT_FD"

// maxSocketPath bounds the paths of sockets that are in their daemon's directory. Longer ones are elsewhere.
const maxSocketPath = 90

// prepareDaemon starts the daemon process if this command will probably need it. It ignores errors: the command then
// starts the process itself.
func prepareDaemon() {
	name, ok := autostart.StartsDaemon(os.Args)
	if !ok {
		return
	}
	socket := autostart.Home() + "/" + name + "/run/api.sock"
	if len(socket) > maxSocketPath {
		return
	}
	if conn, err := wire.Dial(socket); err == nil {
		conn.Close()
		return // a daemon runs already
	}
	prepared, _ = startDaemon(name)
}

// DropDaemon ends the daemon process that was prepared for this command, if there is one.
func DropDaemon() {
	if prepared != nil {
		prepared.conn.Close()
		prepared = nil
	}
}

// RunDaemon runs a daemon in the background with the command line args. output becomes the daemon's standard output and
// error. The daemon writes the outcome of its start to report. Both files stay the caller's.
func RunDaemon(name string, args []string, output, report *os.File) error {
	if prepared == nil || prepared.name != name || prepared.order(args, output, report) != nil {
		DropDaemon()
		var err error
		if prepared, err = startDaemon(name); err != nil {
			return err
		}
		if err := prepared.order(args, output, report); err != nil {
			return fmt.Errorf("pass the daemon its command line: %w", err)
		}
	}
	DropDaemon() // a process that has received its orders keeps running
	return nil
}

func (w *waiting) order(args []string, output, report *os.File) error {
	return w.conn.Send(startRequest{args}, output, report)
}

// startDaemon starts a daemon process. Its arguments only make it recognizable in lists of processes; order sends the
// command line of the daemon.
func startDaemon(name string) (*waiting, error) {
	KeepDescriptors()
	conn, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	p, err := os.StartProcess(role.Self(), []string{"minikctl", "up", "--name", name}, &os.ProcAttr{
		Env:   append(os.Environ(), waitVariable+"="+strconv.Itoa(ordersFD)),
		Files: []*os.File{null, null, null, theirs},
		Sys:   role.OwnSession(),
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	return &waiting{name, conn}, p.Release()
}

const ordersFD = 3

// report is where this process writes the outcome of its start as a daemon; nil if it was not started by RunDaemon.
var report *os.File

// Report returns the file to which this process, if RunDaemon has started it, writes the outcome of its start as a daemon,
// or nil. The caller closes it. The second call returns nil.
func Report() *os.File {
	f := report
	report = nil
	return f
}

// CommandLine returns the command line of this process. In a daemon process it waits until RunDaemon passes it on; if the
// command that has started the process drops it, the process ends here. Otherwise the command line is args.
func CommandLine(args []string) []string {
	if os.Getenv(waitVariable) != strconv.Itoa(ordersFD) {
		return args
	}
	os.Unsetenv(waitVariable)
	conn, err := wire.FileConn(os.NewFile(ordersFD, "orders"))
	if err != nil {
		os.Exit(1)
	}
	defer conn.Close()
	var o startRequest
	files, err := conn.Receive(&o)
	if err != nil || len(files) != 2 {
		os.Exit(0)
	}
	for _, std := range []*os.File{os.Stdout, os.Stderr} {
		if err := unix.Dup2(int(files[0].Fd()), int(std.Fd())); err != nil {
			os.Exit(1)
		}
	}
	files[0].Close()
	report = files[1]
	return o.Args
}
