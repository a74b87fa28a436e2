package supervisor

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxLine is the longest text of a log entry, as in container runtimes. Longer lines are logged in parts.
const maxLine = 16 << 10

// logs copies a container's output to its log file, in the format of the container runtime interface: a line with the time,
// the stream, F for a full line or P for a part of one, and the text. It also copies the output to the joined clients.
type logs struct {
	file       logFile
	streams    *pipes // in is guarded by supervisor.mu
	taps       taps
	inputEnded chan struct{} // closed when the container's input has ended
	done       sync.WaitGroup
}

// stderrName is the stream of log entries from the standard error.
const stderrName = "stderr"

func newLogs(path string, p *pipes) *logs {
	l := &logs{file: logFile{path: path}, streams: p, taps: taps{timeout: writeTimeout}, inputEnded: make(chan struct{})}
	l.file.create()
	if p.out != nil {
		l.done.Go(func() { l.copy("stdout", p.out) })
	}
	if p.err != nil {
		l.done.Go(func() { l.copy(stderrName, p.err) })
	}
	return l
}

// finish waits up to d for the ends of the streams, and closes the log file.
func (l *logs) finish(d time.Duration) {
	timer := time.AfterFunc(d, func() {
		for _, r := range []*os.File{l.streams.out, l.streams.err} {
			if r != nil {
				_ = r.SetReadDeadline(pastDeadline) // pipes without deadlines end with their last writer
			}
		}
	})
	l.done.Wait()
	timer.Stop()
	l.file.close()
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

func (l *logs) copy(name string, r *os.File) {
	s := stream{name: name, file: &l.file}
	defer s.end()
	raw, err := r.SyscallConn()
	if err != nil {
		logf("%s: %v", l.file.path, err)
		return
	}
	for {
		var n int
		var failed error
		// The buffer is taken only once there is output: most containers are silent most of the time.
		err := raw.Read(func(fd uintptr) bool {
			buf := buffers.Get().(*[]byte)
			defer buffers.Put(buf)
			n, failed = syscall.Read(int(fd), *buf)
			if errors.Is(failed, syscall.EAGAIN) {
				return false
			}
			if n > 0 {
				s.write((*buf)[:n])
				l.taps.write(name, (*buf)[:n])
			}
			return true
		})
		if errors.Is(failed, syscall.EINTR) {
			continue
		}
		if err != nil || failed != nil || n <= 0 {
			return
		}
	}
}

// stream turns one stream's bytes into log lines.
type stream struct {
	name    string
	file    *logFile
	partial []byte // the beginning of a line
}

func (s *stream) write(data []byte) {
	now := time.Now()
	var out []byte
	for len(data) > 0 {
		line, rest, full := bytes.Cut(data, []byte{'\n'})
		for len(s.partial)+len(line) > maxLine {
			n := maxLine - len(s.partial)
			out = s.entry(out, now, 'P', line[:n])
			line = line[n:]
		}
		if full {
			out = s.entry(out, now, 'F', line)
		} else {
			s.partial = append(s.partial, line...)
		}
		data = rest
	}
	s.file.write(out)
}

// end logs a last line without a newline.
func (s *stream) end() {
	if len(s.partial) > 0 {
		s.file.write(s.entry(nil, time.Now(), 'P', nil))
	}
}

func (s *stream) entry(out []byte, at time.Time, tag byte, text []byte) []byte {
	out = at.UTC().AppendFormat(out, "2006-01-02T15:04:05.000000000Z07:00")
	out = append(append(append(out, ' '), s.name...), ' ', tag, ' ')
	out = append(append(out, s.partial...), text...)
	s.partial = s.partial[:0]
	return append(out, '\n')
}
