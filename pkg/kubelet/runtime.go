// Package kubelet owns a node: it registers the node and keeps its Lease, runs the pods that are bound to it through a
// Runtime, probes them, serves their logs and exec, and writes what becomes of them back to the API. Like every
// component it talks to the API through a client.Client and to nothing else; a process may hold many nodes.
package kubelet

import (
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Runtime runs pods and their containers. It keeps enough on disk that a new Runtime over the same root finds those of
// the old one, with their exit codes. Implementations are safe for concurrent use.
type Runtime interface {
	// Pods returns every pod that was started and not yet stopped, with its containers, running and exited.
	Pods(ctx context.Context) ([]Pod, error)
	// StartPod makes what a pod's containers share: its address, its folder. Calling it again for the same UID returns
	// the pod that is there.
	StartPod(ctx context.Context, spec PodSpec) (Pod, error)
	// StopPod ends what is left of a pod and forgets it. Idempotent; leaves nothing behind.
	StopPod(ctx context.Context, pod types.UID) error
	// Start starts a container and returns once its program runs, or an error that says why it cannot.
	Start(ctx context.Context, pod types.UID, spec ContainerSpec) (ContainerID, error)
	// Stop asks a container to end (SIGTERM), and kills it when grace is over. Returns when it has ended. Idempotent.
	Stop(ctx context.Context, id ContainerID, grace time.Duration) error
	// Remove forgets an exited container. Idempotent.
	Remove(ctx context.Context, id ContainerID) error
	// Changed is a hint that something has started or ended: call Pods again. It may be lost or come too often.
	Changed() <-chan struct{}
}

// Execer is implemented by runtimes that can run a command in a running container.
type Execer interface {
	// Exec runs cmd until it ends and returns its exit code. An error means that cmd could not be started. The command sees
	// what the container's own command sees: the same environment, working directory, mounts, image files and user, and
	// the runtime resolves paths and variables of cmd as it resolves those of ContainerSpec.Command.
	Exec(ctx context.Context, id ContainerID, cmd []string, streams Streams) (exit int, err error)
}

// Attacher is implemented by runtimes that can connect somebody with a running container's own streams.
type Attacher interface {
	// Attach passes on what the container writes from now on, and gives it the input if it has one (ContainerSpec.Stdin),
	// until the container ends. The end of the input closes that of a container with StdinOnce, and otherwise only ends the
	// call. Several may be attached at once.
	Attach(ctx context.Context, id ContainerID, streams Streams) error
}

// Describer is implemented by runtimes that do less than a pod may ask for, and say so.
type Describer interface {
	// Features says what this machine gives to the pods of this runtime and what it does not. The node shows it.
	Features() []Feature
	// Unhonoured returns a sentence for each part of spec that Start would not do, for the user. It has no effect.
	Unhonoured(spec ContainerSpec) []string
}

// HealthChecker is implemented by runtimes that can become unable to start containers.
type HealthChecker interface {
	// Healthy returns nil while the runtime can start containers, and otherwise why it cannot. The node is then not Ready,
	// and its Ready condition shows the error's text. Healthy does not block; the runtime announces a new answer through
	// Changed.
	Healthy() error
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

// PodSpec is what a runtime needs to know of a pod.
type PodSpec struct {
	UID             types.UID
	Namespace, Name string
	Hostname        string
	HostNetwork     bool
	Annotations     map[string]string // the pod's, for runtimes that have rules there; need not be returned by Pods
}

// Pod is a pod as the runtime sees it.
type Pod struct {
	PodSpec
	IP         string // "" when the runtime has no addresses
	Started    time.Time
	Containers []Container
}

// ContainerSpec is what a runtime needs to start a container: everything is resolved, nothing refers to the API.
type ContainerSpec struct {
	Name    string
	Attempt int      // counts the starts of this container in this pod, from 0
	Image   Image    // resolved by the kubelet's image service
	Command []string // the program and its arguments
	Dir     string   // working directory; "" is the runtime's choice
	Env     []string // NAME=value
	Mounts  []Mount  // folders of the host for the container to see
	LogPath string   // the file that takes its output, in CRI's log format
	User    *int64   // uid to run as; nil: the runtime's own
	Group   *int64   // gid to run as; nil: the runtime's own
	Limits  Limits

	Stdin     bool // keep the standard input open for Attach; else it is empty
	StdinOnce bool // and close it when the first who gives input has ended
	TTY       bool // the streams are a terminal
}

// Image is an image as the kubelet resolved it.
type Image struct {
	Name string // as the pod names it
	ID   string // what imageID shows
	Root string // a folder that holds its files; "": the host's own
}

// Mount shows a folder or file of the host inside a container.
type Mount struct {
	Host, Container string
	ReadOnly        bool
}

// Limits are a container's resource limits; 0 means none.
type Limits struct {
	MilliCPU int64
	Memory   int64 // bytes
}

// Container is a container as the runtime sees it.
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
	Reason   string // set when the runtime ended it or lost its exit: "OOMKilled", "ContainerStatusUnknown"
	Message  string
}
