package kubelet

import (
	"io"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/crilog"
)

// The bounds of a termination message: of one from the container's file, and of one from its log.
const (
	maxMessage      = 4096
	maxLogMessage   = 2048
	maxLogLines     = 80
	maxMessageBytes = maxMessage + 1 // that are read
)

// terminationMessage returns the message that an ended container has written to its terminationMessagePath. With the
// policy FallbackToLogsOnError, a failed container without one gets the end of its log.
func (v *podVolumes) terminationMessage(pod *corev1.Pod, c *corev1.Container, run Container) string {
	if v.simulated() || c.TerminationMessagePath == "" {
		return ""
	}
	if b, err := readTerminationFile(v.terminationPath(c.Name, run.Attempt)); err == nil && len(b) > 0 {
		return string(b[:min(len(b), maxMessage)])
	}
	if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || run.ExitCode == 0 {
		return ""
	}
	text, err := crilog.Tail(v.logPath(pod, c.Name, run.Attempt), maxLogLines, maxLogMessage)
	if err != nil {
		return ""
	}
	return text
}

// readTerminationFile reads the beginning of a file that a container has written. A container can replace it by a pipe
// without a writer or by a link to a file of another owner: these are not read.
func readTerminationFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxMessageBytes))
}
