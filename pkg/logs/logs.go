// Package logs owns the log of the process: its level, which clients may change while the process runs, and the check that it is not blocked.
package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/health"
)

var (
	level slog.LevelVar
	log   atomic.Pointer[output] // nil before SetUp
)

// SetUp sends the log of the process, and that of Kubernetes' libraries, to a writer, from a level on.
func SetUp(to io.Writer, machine clock.Clock, from string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(from)); err != nil {
		return fmt.Errorf("log level: %w", err)
	}
	level.Set(l)
	out := &output{to: to, machine: machine}
	log.Store(out)
	slog.SetDefault(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: &level})))
	klog.SetSlogLogger(slog.Default())
	return nil
}

// output is a writer that has noted when the write in progress began. Its caller makes one write at a time.
type output struct {
	to      io.Writer
	machine clock.Clock
	began   atomic.Pointer[time.Time] // nil: no write is in progress
}

func (o *output) Write(line []byte) (int, error) {
	now := o.machine.Now()
	o.began.Store(&now)
	defer o.began.Store(nil)
	return o.to.Write(line)
}

// blockedAfter is how long a write may take. Kubernetes flushes its log each minute, and reports that it is blocked when it could not for two minutes.
const blockedAfter = 2 * time.Minute

func (o *output) check() error {
	if began := o.began.Load(); began != nil && o.machine.Since(*began) >= blockedAfter {
		return errors.New("logging blocked")
	}
	return nil
}

// Check is the check that the log is not blocked: components wait while it is, for example because nothing reads the pipe that it goes to.
var Check = health.Check{Name: "log", Run: func(context.Context) error {
	if o := log.Load(); o != nil {
		return o.check()
	}
	return nil
}}

// Flags serves /debug/flags/v, which changes the verbosity, and the index of such flags in the other paths below /debug/flags.
func Flags(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/debug/flags/v" {
		Verbosity(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n")
}

// longestVerbosity bounds the body of a request.
const longestVerbosity = 100

// Verbosity sets the verbosity of the log to the body of a PUT request, as /debug/flags/v of Kubernetes' components.
func Verbosity(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		writeText(w, http.StatusNotAcceptable, "unsupported http method")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestVerbosity))
	if err != nil {
		writeText(w, http.StatusBadRequest, "error reading request body: "+err.Error())
		return
	}
	if err := setVerbosity(string(body)); err != nil {
		writeText(w, http.StatusBadRequest, err.Error())
		return
	}
	writeText(w, http.StatusOK, "successfully set klog.logging.verbosity to "+string(body))
}

// setVerbosity sets the verbosity of Kubernetes' libraries, and the level from which on the log has lines: as libraries do, it takes verbosity n for
// level -n, so that 4 is the first with debug lines.
func setVerbosity(text string) error {
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return err
	}
	var l klog.Level
	if err := l.Set(text); err != nil {
		return fmt.Errorf("failed set klog.logging.verbosity %s: %w", text, err)
	}
	level.Set(slog.LevelInfo - slog.Level(v))
	return nil
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
