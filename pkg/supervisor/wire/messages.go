package wire

import (
	"encoding/json"
	"errors"
	"time"
)

// Op is the operation of a request. Each request has its own connection.
type Op string

const (
	Attach Op = "attach" // answered by Events until the connection ends: first every container, then the changes; the daemon sends Routes
	Start  Op = "start"
	Stop   Op = "stop" // answered when the container has ended; with Restart, the daemon will start its successor
	Remove Op = "remove"
	Exec   Op = "exec" // with files for stdin, stdout, stderr; answered when the command has ended; ends with the connection
	// Join connects files for stdin, stdout and stderr with the streams of a container. It is answered when the container has
	// ended, or when the given input has and the container's stays open for the next. It ends with the connection.
	Join     Op = "join"
	Resize   Op = "resize"  // of a container's terminal
	Relimit  Op = "relimit" // gives a running container other limits
	Measure  Op = "measure"
	Sockets  Op = "sockets" // answered with the files that the last daemon has sent with Routes.Sockets
	Shutdown Op = "shutdown"
)

// Request is what the daemon sends.
type Request struct {
	Op    Op
	ID    string        `json:",omitempty"` // the container; for Stop, Remove, Exec, Join, Resize, Relimit
	IDs   []string      `json:",omitempty"` // the containers, for Measure
	Spec  *Spec         `json:",omitempty"` // for Start
	Grace time.Duration `json:",omitempty"` // for Stop

	Restart bool     `json:",omitempty"` // for Stop: the new Status.Restart
	Exec    *Command `json:",omitempty"`
	Input   bool     `json:",omitempty"` // for Join: the first file is the container's input
	Size    *Size    `json:",omitempty"` // for Resize
	Limits  *Limits  `json:",omitempty"` // for Relimit
	Probe   string   `json:",omitempty"` // for Attach: an address that no pod has, to try whether pods can have addresses
}

// Limits are the limits of a running container; 0: none.
type Limits struct {
	MilliCPU          int64 `json:",omitempty"` // in thousandths of a CPU
	Memory, PodMemory int64 `json:",omitempty"` // in bytes, of the container, and of all containers of the pod together
}

// Size is the size of a terminal in characters.
type Size struct{ Width, Height uint16 }

// Reply is the supervisor's reply to a request.
type Reply struct {
	Error  string  `json:",omitempty"`
	Code   string  `json:",omitempty"` // the kind of the error, for errors.Is
	Status *Status `json:",omitempty"`
	Exit   int     `json:",omitempty"` // code of Exec

	Usage map[string]Usage `json:",omitempty"` // of Measure: of the running containers by ID
}

// Usage is what the processes of a container have used until a time.
type Usage struct {
	At     time.Time
	CPU    time.Duration // since the start. It may decrease where the machine has no cgroups, when a process ends
	Memory int64         // resident, in bytes
}

// Event is one message of the reply to Attach.
type Event struct {
	Status  *Status `json:",omitempty"` // the status of a container
	Removed string  `json:",omitempty"` // the ID of a removed container
	Synced  bool    `json:",omitempty"` // all containers that existed at the start have been sent
	Refused string  `json:",omitempty"` // with Synced: why pods can't have addresses of their own; "" if they can
	// With Synced: containers can have mount namespaces (Spec.Mounts), or why they can't.
	Namespaces        bool   `json:",omitempty"`
	NamespacesRefused string `json:",omitempty"`
	MemoryEnforced    bool   `json:",omitempty"` // with Synced: the kernel enforces the memory limits of containers
	CPUEnforced       bool   `json:",omitempty"` // with Synced: the kernel enforces the CPU limits of containers
	PIDsEnforced      bool   `json:",omitempty"` // with Synced: the kernel enforces the limits of processes of pods
	Routes            bool   `json:",omitempty"` // with Synced: the supervisor receives Routes
}

// Spec is a container for the supervisor to run. The supervisor keeps it on disk.
type Spec struct {
	ID       string // also the name of its directory
	Pod      string // UID
	StateDir string `json:"Folder"` // of the container's files; the supervisor creates it. Supervisors of older versions call it Folder
	Argv     []string
	Dir      string
	Env      []string
	LogPath  string
	UID      *int64 `json:",omitempty"`
	GID      *int64 `json:",omitempty"`
	Memory   int64  `json:",omitempty"` // limit in bytes; 0: none

	MilliCPU int64 `json:",omitempty"` // CPU limit in thousandths of a CPU; 0: none

	Security Security

	PodMemory int64 `json:",omitempty"` // limit of all containers of the pod together, in bytes; 0: none
	PodPIDs   int64 `json:",omitempty"` // limit of the processes and threads of all containers of the pod together; 0: none

	Address string `json:",omitempty"` // of the pod; "": the pod shares the host's
	Node    string `json:",omitempty"` // of the pod, for Route.Local
	// Resolver is the IPv4 address of the DNS server that the container reaches in place of the machine's; "": it reaches the machine's.
	Resolver string `json:",omitempty"`

	Stdin     bool `json:",omitempty"` // its standard input is open for Join; otherwise it is empty
	StdinOnce bool `json:",omitempty"` // and closed when the first joined input ends
	TTY       bool `json:",omitempty"` // its streams are a terminal

	Links []Link `json:",omitempty"` // to the mounts, below Root
	// Mounts are shown at their paths in a mount namespace of the container.
	Mounts   []Mount         `json:",omitempty"`
	Hostname string          `json:",omitempty"` // in namespaces only
	Meta     json.RawMessage `json:",omitempty"` // for the daemon; the supervisor only keeps it
}

// Security is what the processes of a container may do. The zero value takes nothing away.
type Security struct {
	Groups []int64 `json:",omitempty"` // the supplementary groups
	// BestEffort: the container has the user and the groups of the supervisor where it can't have its own.
	BestEffort bool `json:",omitempty"`
	// Capabilities is the set that the container can have, a bit for each; nil: the supervisor's.
	Capabilities    *uint64 `json:",omitempty"`
	NoNewPrivileges bool    `json:",omitempty"`
	DenyCalls       bool    `json:",omitempty"` // refuse the system calls that the default profiles of container runtimes refuse
	// In namespaces only:
	ReadOnlyRoot bool `json:",omitempty"` // the container can write to its writable mounts, /dev and /proc only
	MaskPaths    bool `json:",omitempty"` // hide and protect the files of /proc and /sys with which a process could change the machine
}

// Link makes the host's path Host appear at Path below the container's root directory. Path is absolute and clean.
type Link struct{ Path, Host string }

// Mount makes the host's path Host appear at Path in a container. Path is absolute and clean.
type Mount struct {
	Path, Host  string
	ReadOnly    bool   `json:",omitempty"`
	Recursive   bool   `json:",omitempty"` // ReadOnly holds also for mounts below Host
	Propagation string `json:",omitempty"` // HostToContainer, Bidirectional; any other value: none
}

// The values of Mount.Propagation, as in the API.
const (
	HostToContainer = "HostToContainer"
	Bidirectional   = "Bidirectional"
)

// Namespaced reports whether the container needs a mount namespace.
func (s *Spec) Namespaced() bool {
	return len(s.Mounts) > 0 || s.Security.ReadOnlyRoot || s.Security.MaskPaths
}

// RootVariable names Root in a container's environment.
const RootVariable = "MINIKCTL_ROOT"

// Root is the directory in which a container finds its mounts.
func (s *Spec) Root() string { return s.StateDir + "/root" }

// MountDir is the directory in which a container's mount points are made.
func (s *Spec) MountDir() string { return s.StateDir + "/mounts" }

// Command is run in a running container.
type Command struct {
	Argv []string
	TTY  bool
}

// Process identifies a process. The kernel gives the number of a process that has ended to a later one, which has another
// start time.
type Process struct {
	PID  int
	Born uint64 // when the kernel started it, in its own unit
}

// Status is the state of a container.
type Status struct {
	Spec     *Spec
	Revision uint64 // grows with each change of any container
	PID      int    // of the first process; also the number of its process group and session
	Born     uint64 // the start time of PID in the kernel's unit; PID, Born and Boot identify the process
	Boot     string // identifies the boot of the machine
	Started  time.Time
	Running  bool
	Finished time.Time
	ExitCode int
	Signal   int
	Reason   string
	Message  string
	Restart  bool   `json:",omitempty"` // it has been stopped so that the daemon starts its successor
	Closed   bool   `json:",omitempty"` // its input has ended
	Cgroup   string `json:",omitempty"` // the directory of its cgroup; "": it has none
	// MemoryEnforced: the kernel enforces the memory limit on the processes in the Cgroup.
	MemoryEnforced bool `json:",omitempty"`

	CPUGroup    string `json:",omitempty"` // the directory of its cgroup of version 1 with its CPU limit; "": it has none
	MemoryGroup string `json:",omitempty"` // the directory of its cgroup of version 1 with its memory limit; "": it has none
	// PodGroup is the directory of its pod's cgroup with the limit of processes, of version 2 if the Cgroup is in it, and otherwise of version 1; "":
	// there is none.
	PodGroup string `json:",omitempty"`

	NewLimits *Limits `json:",omitempty"` // those that replace the Spec's since its start; nil: it has the Spec's

	Leaders []Process `json:",omitempty"` // of the further sessions that its processes have made; with a Cgroup or Tag, only of commands and their processes
	// AllDatagrams: the supervisor gets all calls that may send packets to Services off loopback. It is not set if there was no such Service at the
	// container's start.
	AllDatagrams bool `json:",omitempty"`

	Tag uint64 `json:",omitempty"` // the limit that all its processes inherit and no other process has; 0: none
}

// Limits returns the container's current limits.
func (s *Status) Limits() Limits {
	if s.NewLimits != nil {
		return *s.NewLimits
	}
	return Limits{MilliCPU: s.Spec.MilliCPU, Memory: s.Spec.Memory, PodMemory: s.Spec.PodMemory}
}

// Launch is the message that a forked process receives before it becomes a program of a container.
type Launch struct {
	Argv   []string
	Dir    string
	Env    []string
	UID    *int64 `json:",omitempty"`
	GID    *int64 `json:",omitempty"`
	Filter Filter
	TTY    bool `json:",omitempty"` // make the standard input the controlling terminal

	Security Security

	// In namespaces that the process has been started in:
	Mounts   []Mount `json:",omitempty"`
	Links    []Link  `json:",omitempty"` // the mounts that are also found at the host's paths
	MountDir string  `json:",omitempty"` // "": the process has no namespaces
	Hostname string  `json:",omitempty"`
}

// KeptTerminal is the descriptor under which a container keeps the supervisor's end of its terminal. The next supervisor
// takes it from there, and until then the terminal does not hang up.
const KeptTerminal = 1001

// Filter selects the system calls that the supervisor handles.
type Filter int

const (
	NoFilter Filter = iota
	SessionFilter
	AddressFilter // setsid and the calls that have the addresses of sockets
	// MessageFilter is AddressFilter with sendmsg and sendmmsg, whose addresses no filter can see. It refuses what sends packets past it.
	MessageFilter
)

// Launched is the reply to Launch. Without an Error, the program runs once the connection ends.
type Launched struct {
	Error    string `json:",omitempty"`
	Filtered bool   `json:",omitempty"` // the message comes with the notify descriptor; the process waits for Received
	Refused  string `json:",omitempty"` // why there is no filter
}

// Received is the answer to a Launched with a notify descriptor: the descriptor is where the process's calls are answered.
type Received struct{}

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

// These are the supervisor's files below its directory.
const (
	SocketFile = "run/supervisor.sock"
	LockFile   = "run/supervisor.lock"
	LogFile    = "run/supervisor.log"
	KeeperFile = "run/keeper.sock"
	Containers = "containers"  // a directory per container, named by its ID
	RangesFile = "ranges.json" // the prefixes of Services' addresses, for the next supervisor
	StateFile  = "state.json"  // in a container's directory: its Status
)

// Pipes are the named pipes of a container's output in its directory: standard output and standard error.
var Pipes = [2]string{"out", "err"}

// InputPipe is the named pipe of a container's input, if it has one. A container with a terminal has no pipes.
const InputPipe = "in"
