package wire

import (
	"encoding/json"
	"errors"
	"time"
)

// Op is what a request asks of the supervisor. Each request has a connection of its own.
type Op string

const (
	Attach   Op = "attach"   // answered by Events until the connection ends: first every container, then what changes
	Handover Op = "handover" // gives a new supervisor the notify descriptor that the old one had for a container
	Start    Op = "start"    // its notify descriptor comes with the reply, if it has one
	Stop     Op = "stop"     // answered when the container has ended
	Remove   Op = "remove"
	Exec     Op = "exec" // with files for stdin, stdout, stderr; answered when the command has ended; ends with the connection
	// Join comes with files for a container's stdin, stdout and stderr, to be connected with its own; answered when the
	// container has ended, or its input if it stays open for the next; ends with the connection.
	Join     Op = "join"
	Resize   Op = "resize" // of a container's terminal
	Shutdown Op = "shutdown"
)

// Request is what the daemon sends.
type Request struct {
	Op    Op
	ID    string        `json:",omitempty"` // the container; for Stop, Remove, Exec, Join, Resize, Handover
	Spec  *Spec         `json:",omitempty"` // for Start
	Grace time.Duration `json:",omitempty"` // for Stop
	Exec  *Command      `json:",omitempty"`
	Input bool          `json:",omitempty"` // for Join: the first file is to be read
	Size  *Size         `json:",omitempty"` // for Resize
	Probe string        `json:",omitempty"` // for Attach: an address that no pod has, to find out whether pods can have any
}

// Size is that of a terminal, in characters.
type Size struct{ Width, Height uint16 }

// Reply is what the supervisor answers.
type Reply struct {
	Error  string  `json:",omitempty"`
	Code   string  `json:",omitempty"` // what kind of error it is, for errors.Is
	Status *Status `json:",omitempty"`
	Exit   int     `json:",omitempty"` // of Exec
}

// Event is what Attach is answered with.
type Event struct {
	Status  *Status `json:",omitempty"` // a container as it is now
	Removed string  `json:",omitempty"` // the ID of a container that is no more
	Synced  bool    `json:",omitempty"` // all that was there at the start has been sent
	Refused string  `json:",omitempty"` // with Synced: why pods can't have addresses of their own here
	Notify  string  `json:",omitempty"` // a container's ID; its notify descriptor comes with the event
}

// Spec is a container for the supervisor to run. The supervisor keeps it on disk.
type Spec struct {
	ID      string // also the name of its folder
	Pod     string // UID
	Folder  string // where the container's own files are kept; made by the supervisor
	Argv    []string
	Dir     string
	Env     []string
	LogPath string
	UID     *int64 `json:",omitempty"`
	GID     *int64 `json:",omitempty"`
	Memory  int64  `json:",omitempty"` // limit in bytes; 0: none
	Address string `json:",omitempty"` // the pod's own; "": it shares the host's

	Stdin     bool `json:",omitempty"` // its standard input is open, for Join; else empty
	StdinOnce bool `json:",omitempty"` // and closed when the first who gives input has ended
	TTY       bool `json:",omitempty"` // its streams are a terminal

	Links []Link          `json:",omitempty"` // what is shown below Root
	Meta  json.RawMessage `json:",omitempty"` // the daemon's own notes
}

// Link shows the host's path Host at Path below the container's root folder. Path is absolute and has no dots.
type Link struct{ Path, Host string }

// RootVariable names Root in a container's environment.
const RootVariable = "MINIKCTL_ROOT"

// Root is the folder in which a container finds its mounts.
func (s *Spec) Root() string { return s.Folder + "/root" }

// Command is run in a running container.
type Command struct {
	Argv []string
	TTY  bool
}

// Status is what became of a container.
type Status struct {
	Spec     *Spec
	Revision uint64 // grows with each change of any container of a supervisor
	PID      int    // of its first process; also its process group and session
	Born     uint64 // when the kernel started PID, in its own unit; with PID and Boot it names a process
	Boot     string // which boot of the machine
	Started  time.Time
	Running  bool
	Finished time.Time
	ExitCode int
	Signal   int
	Reason   string
	Message  string
	Closed   bool  `json:",omitempty"` // nobody can give it input any more
	Sessions []int `json:",omitempty"` // further sessions that its processes have made
}

// Launch is what a container's first process is told before it becomes the container's program.
type Launch struct {
	Argv   []string
	Dir    string
	Env    []string
	UID    *int64 `json:",omitempty"`
	GID    *int64 `json:",omitempty"`
	Filter Filter
	Keep   bool `json:",omitempty"` // leave the notify descriptor open as KeptFD, for a supervisor to come
	TTY    bool `json:",omitempty"` // make the standard input the controlling terminal
}

// KeptFD is where a container holds the other end of its own filter. As long as it does, its calls wait when the
// supervisor dies, instead of failing, and the next supervisor takes the descriptor from there. A program that closes
// what it does not know is left with the daemon's copy.
const KeptFD = 1000

// KeptTerminal is where a container with a terminal holds the supervisor's end of it: the next supervisor takes it from
// there, and until then the terminal does not hang up.
const KeptTerminal = KeptFD + 1

// Filter says which system calls the supervisor is told of.
type Filter int

const (
	NoFilter Filter = iota
	SessionFilter
	AddressFilter // sessions, bind and connect
)

// Launched is what that process answers. After a nil Error nothing more comes: the program runs once the connection ends.
type Launched struct {
	Error    string `json:",omitempty"`
	Filtered bool   `json:",omitempty"` // the notify descriptor comes with it
	Refused  string `json:",omitempty"` // why there is no filter
}

// These are the kinds of errors that a Reply may carry.
var (
	ErrNotFound = errors.New("no such container")
	ErrExists   = errors.New("container exists")
	ErrRunning  = errors.New("container is running")
	ErrStopped  = errors.New("container is not running")
)

var codes = map[string]error{
	"NotFound": ErrNotFound,
	"Exists":   ErrExists,
	"Running":  ErrRunning,
	"Stopped":  ErrStopped,
}

// Failed returns the reply that carries err.
func Failed(err error) Reply {
	r := Reply{Error: err.Error()}
	for code, known := range codes {
		if errors.Is(err, known) {
			r.Code = code
		}
	}
	return r
}

// Err returns the error that r carries, or nil.
func (r Reply) Err() error {
	if r.Error == "" {
		return nil
	}
	return &remoteError{r.Error, codes[r.Code]}
}

type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// These are the supervisor's files below its folder.
const (
	SocketFile = "run/supervisor.sock"
	LockFile   = "run/supervisor.lock"
	LogFile    = "run/supervisor.log"
	Containers = "containers" // a folder per container, named by its ID
	StateFile  = "state.json" // in a container's folder: its Status
)

// Pipes are the named pipes of a container's output in its folder: standard output and standard error.
var Pipes = [2]string{"out", "err"}

// InputPipe is that of its input, if it has one. A container with a terminal has no pipes.
const InputPipe = "in"
