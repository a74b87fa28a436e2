// Package crilog reads container logs in CRI's format: a line is "TIME STREAM TAG TEXT", where the tag begins with F for
// a full line and P for a part of a line that the next one continues.
package crilog

import (
	"bytes"
	"errors"
	"time"
)

// Line is one line of a log file.
type Line struct {
	Time    time.Time
	Stream  string // "stdout" or "stderr"
	Partial bool
	Text    []byte // with its newline, unless it is partial
}

// timeFormat is the format of times.
const timeFormat = time.RFC3339Nano

var errMalformed = errors.New("malformed log line")

// Parse parses a line. The Text shares its memory.
func Parse(line []byte) (Line, error) {
	at, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return Line{}, errMalformed
	}
	when, err := time.Parse(timeFormat, string(at))
	if err != nil {
		return Line{}, errMalformed
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return Line{}, errMalformed
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return Line{}, errMalformed
	}
	first, _, _ := bytes.Cut(tags, []byte{':'})
	l := Line{Time: when, Stream: string(stream), Partial: string(first) == "P", Text: text}
	if !l.Partial && string(first) != "F" {
		return Line{}, errMalformed
	}
	if l.Partial {
		l.Text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	return l, nil
}
