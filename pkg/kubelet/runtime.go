// Package kubelet owns a node: it registers the node and keeps its Lease, runs the pods that are bound to it through a
// Runtime, probes them, serves their logs and exec, and writes their statuses to the API. Like every component it is a
// client of the API only. A process may run the kubelets of many nodes, which share a Host.
package kubelet

import (
	"context"
	"io"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

// Runtime runs pods and their containers. It stores enough on disk that a new Runtime over the same root lists those of
// the old one, with their exit codes. Implementations are safe for concurrent use.
type Runtime interface {
	// Pods returns every pod that was started and not stopped, with its running and exited containers.
	Pods(ctx context.Context) ([]Pod, error)
	// StartPod starts a pod's sandbox: what its containers share, such as an address. For a UID that is started it returns
	// that pod.
	StartPod(ctx context.Context, spec PodSpec) (Pod, error)
	// StopPod stops the pod's containers and removes the pod with all its resources. Idempotent.
	StopPod(ctx context.Context, pod types.UID) error
	// Start starts a container and returns once its program runs. The error is shown to users.
	Start(ctx context.Context, pod types.UID, spec ContainerSpec) (ContainerID, error)
	// Stop sends SIGTERM to a container and kills it after grace. It returns when the container has ended. Idempotent.
	Stop(ctx context.Context, id ContainerID, grace time.Duration) error
	// Remove removes an exited container. Idempotent.
	Remove(ctx context.Context, id ContainerID) error
	// Changed hints that Pods or Healthy return another result. Hints may be merged, and may come without a change.
	Changed() <-chan struct{}
}

// Execer is implemented by runtimes that can run a command in a running container.
type Execer interface {
	// Exec runs cmd until it ends and returns its exit code. An error means that cmd could not be started. The command has
	// what the container's own command has: the same environment, working directory, mounts, image files and user, and
	// the runtime resolves paths and variables of cmd as it resolves those of ContainerSpec.Command.
	Exec(ctx context.Context, id ContainerID, cmd []string, streams Streams) (exit int, err error)
}

// Attacher is implemented by runtimes that can connect a client with a running container's own streams.
type Attacher interface {
	// Attach copies the container's output from now on to the streams, and their input to a container with Stdin, until the
	// container ends. The end of the input closes that of a container with StdinOnce, and otherwise only ends the call.
	// Several clients may be attached at once.
	Attach(ctx context.Context, id ContainerID, streams Streams) error
}

// Describer is implemented by runtimes that ignore parts of a pod's spec.
type Describer interface {
	// Features returns what pods of this runtime have and lack on this machine. It may block for seconds. The node shows
	// the features as conditions.
	Features() []Feature
	// Unhonoured returns a sentence for each part of spec that Start ignores. The pod gets them as an Event.
	Unhonoured(spec ContainerSpec) []string
}

// Warner is implemented by Nodes whose containers lack what this machine can't give.
type Warner interface {
	// Warnings returns a sentence for each field of a pod that the machine can't give its containers, after the field's path, which begins
	// with "spec.". It may block for seconds at the start of a daemon.
	Warnings(ctx context.Context, spec *corev1.PodSpec, program Program) []string
}

// Program returns the command and the variables of a container, as far as its spec and its image have them: values from other objects are
// left out.
type Program func(*corev1.Container) (command, env []string)

// HealthChecker is implemented by runtimes that can become unable to start containers.
type HealthChecker interface {
	// Healthy returns nil while the runtime can start containers, and otherwise why it cannot. The node is then not
	// Ready, and its Ready condition shows the error's text. Healthy does not block; the runtime announces a new result
	// through Changed.
	Healthy() error
}

// Resizer is implemented by runtimes that can change the limits of running containers.
type Resizer interface {
	// Resize gives a running container other limits. Pods then lists it with them. The error is shown to users.
	Resize(ctx context.Context, id ContainerID, limits Limits) error
}

// Restarter is implemented by runtimes whose containers outlive the kubelet.
type Restarter interface {
	// StopToRestart is Stop for a container that the kubelet will start again. Pods lists the container with Restart, also for a later kubelet.
	StopToRestart(ctx context.Context, id ContainerID, grace time.Duration) error
}

// Meter is implemented by runtimes that can measure what containers use.
type Meter interface {
	// Usage returns what the running containers of pods use. The pods are from Pods, with their current annotations. It leaves out
	// containers whose usage is unknown, and may block for a second.
	Usage(ctx context.Context, pods []Pod) (map[ContainerID]Usage, error)
}

// Simulator is implemented by runtimes of simulated containers. Rules of the pod replace what images and probes do elsewhere. The rules
// are those of the pod as it is now.
type Simulator interface {
	// Pull returns nil if a container's image can be pulled now, and otherwise the error of the registry.
	Pull(pod *corev1.Pod, container *corev1.Container) error
	// ReadyAfter returns how long after its start a container gets ready. It is negative if the container does not.
	ReadyAfter(pod *corev1.Pod, container string) time.Duration
}

// Usage is what a container used in the window that ended at Time.
type Usage struct {
	Time      time.Time
	Window    time.Duration
	Resources corev1.ResourceList // cpu and memory, or one of them
	CPUTime   time.Duration       // since the container's start
}

// Feature is a property of a runtime's containers that depends on the machine. The node shows each as a condition.
type Feature struct {
	Name    string // the condition's type, in CamelCase: "PodAddresses"
	OK      bool   // the condition's status
	Reason  string // the condition's reason, in CamelCase; "": RuntimeGives or RuntimeLacks
	Message string // what containers have, or why they lack it and what they get instead
}

// Streams are the ends of a command's standard streams; nil ones are closed.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	TTY      bool
	Resize   <-chan WindowSize
}

// WindowSize is the size of a terminal, in characters.
type WindowSize struct{ Width, Height uint16 }

// ContainerID names a container within its runtime.
type ContainerID string

// PodSpec is a runtime's input for a pod's sandbox.
type PodSpec struct {
	UID             types.UID
	Namespace, Name string
	Hostname        string
	HostNetwork     bool
	PodCIDR         string            // of the node, "" if it has none; Pods may leave it out
	Annotations     map[string]string // of the pod; Pods may leave them out
	Created         time.Time         // the pod's creationTimestamp; Pods may leave it out
	OwnerKind       string            // the kind of the pod's controller, "" without one; Pods may leave it out
	OwnerName       string            // of the pod's controller; Pods may leave it out
	OwnerUID        types.UID         // of the pod's controller; Pods may leave it out
}

// Pod is a runtime's view of a pod.
type Pod struct {
	PodSpec
	IP         string // "" when the runtime has no addresses
	Started    time.Time
	Containers []Container
}

// ContainerSpec is a runtime's input for a container. The kubelet has resolved all references to API objects.
type ContainerSpec struct {
	Name    string
	Attempt int      // the number of earlier starts in this pod
	Image   Image    // resolved by the kubelet
	Command []string // the program and its arguments
	Dir     string   // working directory; "" is the runtime's choice
	Env     []string // NAME=value
	Mounts  []Mount  // directories and files of the host
	Network []Mount  // files such as /etc/hosts, which the runtime shows if it can show mounts at their paths
	LogPath string   // the file for the output, in CRI's log format
	User    *int64   // uid to run as; nil: the runtime's own
	Group   *int64   // gid to run as; nil: the runtime's own
	Limits  Limits

	Security Security

	Resolver *Resolver // of names in the cluster, for a runtime that can't show Network; nil: the pod uses the machine's

	Stdin     bool // keep the standard input open for Attach; else it is empty
	StdinOnce bool // close it after the first client that attaches with input
	TTY       bool // the streams are a terminal
}

// Security is what a container may do: its security context and that of the pod in one, without the user and the group.
type Security struct {
	Privileged       bool
	NoNewPrivileges  bool // allowPrivilegeEscalation is false
	ReadOnlyRoot     bool
	UnmaskedProc     bool
	Groups           []int64 // the supplementary groups, the fsGroup among them
	AddCapabilities  []corev1.Capability
	DropCapabilities []corev1.Capability
	Seccomp          corev1.SeccompProfileType // "": Unconfined
}

// Image is an image as the kubelet resolved it.
type Image struct {
	Name string // from the pod's spec
	ID   string // the status's imageID
	Root string // a directory that holds its files; "": the host's own
}

// Mount is a directory or file of the host at a path of the container.
type Mount struct {
	Host, Container string
	ReadOnly        bool
	Recursive       bool // ReadOnly also for what is mounted below Host
	Propagation     corev1.MountPropagationMode
}

// Resolver is how a container finds names in the cluster: what the resolv.conf in Network says.
type Resolver struct {
	Server            netip.Addr
	Searches, Options []string
}

// Limits are a container's resource limits; 0 means none.
type Limits struct {
	MilliCPU int64
	Memory   int64 // bytes

	PodMemory int64 // of all containers of the pod together, in bytes
}

// Container is a runtime's view of one start of a container.
type Container struct {
	ID       ContainerID
	Name     string
	Attempt  int
	Image    Image
	PID      int // 0 when it has none
	Started  time.Time
	Running  bool
	Finished time.Time
	ExitCode int    // 128+n for signal n
	Signal   int    // 0: it exited by itself
	Reason   string // set if the runtime killed it or has lost its exit code: "OOMKilled", "ContainerStatusUnknown"
	Message  string
	Restart  bool   // a kubelet has stopped it to start the container again
	Limits   Limits // current ones, of a runtime that is a Resizer
}
