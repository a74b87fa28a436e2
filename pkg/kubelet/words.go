package kubelet

import (
	"io"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/crilog"
)

// How much of a container's last words a status shows: of the file it wrote, and of its log.
const (
	maxWords     = 4096
	maxLogWords  = 2048
	maxLogLines  = 80
	maxWordsRead = maxWords + 1
)

// lastWords returns what an ended container left as its message: the file it was told of, or the end of its log when it
// failed and the pod wants that.
func (w *worker) lastWords(c *corev1.Container, run Container) string {
	if c.TerminationMessagePath == "" {
		return ""
	}
	if b, err := readWords(w.wordsPath(c.Name, run.Attempt)); err == nil && len(b) > 0 {
		return string(b[:min(len(b), maxWords)])
	}
	if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || run.ExitCode == 0 || w.pod == nil {
		return ""
	}
	text, err := crilog.Tail(w.logPath(w.pod, c.Name, run.Attempt), maxLogLines, maxLogWords)
	if err != nil {
		return ""
	}
	return text
}

// readWords reads the beginning of a file that a container has written. Should it have put something else in its place, a
// pipe that nobody writes to or a link to what is not its own, that says nothing.
func readWords(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxWordsRead))
}
