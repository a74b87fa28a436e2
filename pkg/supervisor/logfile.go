package supervisor

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"time"
)

// A log is rotated at maxLogSize, and maxLogFiles files are kept, including the current one: the defaults of Kubernetes.
const (
	maxLogSize  = 10 << 20
	maxLogFiles = 5
)

// logFile is a container's log. With an empty path it drops what is written.
type logFile struct {
	path string

	mu     sync.Mutex
	file   *os.File
	size   int64
	failed bool // a failure is logged once, not for each line
}

func (l *logFile) write(b []byte) {
	if len(b) == 0 || l.path == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.open()
	if err == nil {
		var n int
		n, err = l.file.Write(b)
		if err != nil {
			n = l.dropPart(b[:n])
		}
		l.size += int64(n)
	}
	if err == nil && l.size >= maxLogSize {
		err = l.rotate()
	}
	if err != nil && !l.failed {
		logf("output is lost: %v", err)
	}
	l.failed = err != nil
}

// dropPart removes the beginning of an entry that did not fit on the disk, so that the next entry has a line of its own. It returns how much of
// what was written is left.
func (l *logFile) dropPart(written []byte) int {
	whole := bytes.LastIndexByte(written, '\n') + 1
	if whole < len(written) && l.file.Truncate(l.size+int64(whole)) != nil {
		return len(written)
	}
	return whole
}

// create creates the file, so that the log of a silent container is empty instead of missing.
func (l *logFile) create() {
	if l.path == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		logf("%v", err) // write tries again
	}
}

func (l *logFile) open() error {
	if l.file != nil {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, info.Size()
	return nil
}

// rotate renames the file to a name with the current time, as the kubelet does, and removes the oldest such files.
func (l *logFile) rotate() error {
	l.file.Close()
	l.file = nil
	if err := os.Rename(l.path, l.path+"."+time.Now().UTC().Format("20060102-150405.000000000")); err != nil {
		return err
	}
	entries, err := os.ReadDir(parent(l.path)) // in the order of names, and so of time
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if path := parent(l.path) + "/" + e.Name(); strings.HasPrefix(path, l.path+".") {
			old = append(old, path)
		}
	}
	for len(old) > maxLogFiles-1 {
		if err := os.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
