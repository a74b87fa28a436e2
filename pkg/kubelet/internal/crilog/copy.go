package crilog

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options select the lines of a log and their form.
type Options struct {
	Tail       *int64    // the number of lines from the end; nil: all
	Since      time.Time // excludes earlier lines
	Timestamps bool      // puts its time before each line
	Limit      int64     // bytes; 0: no limit
	Stream     string    // "stdout" or "stderr"; "": both

	// Follow continues the copy as the log grows, until More returns false. Wait waits between two reads.
	Follow bool
	More   func() bool
	Wait   func(ctx context.Context) error
}

// errLimit ends a copy at its limit.
var errLimit = errors.New("limit reached")

// Copy copies the log at path and its rotated files to out. A log that does not exist is empty.
func Copy(ctx context.Context, path string, o Options, out io.Writer) error {
	c := &copier{path: path, Options: o, out: out}
	defer c.close()
	err := c.run(ctx)
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

type copier struct {
	Options
	path    string
	out     io.Writer
	current *os.File // the newest file
	rest    []byte   // the beginning of its last line, which is not complete yet
	written int64
	inLine  bool // the last line was partial
}

func (c *copier) close() {
	if c.current != nil {
		_ = c.current.Close() // only read
	}
}

func (c *copier) run(ctx context.Context) error {
	old, err := Rotated(c.path)
	if err != nil {
		return err
	}
	skip, err := c.skip(old)
	if err != nil {
		return err
	}
	for _, path := range old {
		if from, ok := skip[path]; ok {
			if err := c.file(path, from); err != nil {
				return err
			}
		}
	}
	if err := c.open(skip[c.path]); err != nil {
		return err
	}
	return c.follow(ctx)
}

// Rotated returns the rotated files of a log, the oldest first.
func Rotated(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+".") {
			out = append(out, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	slices.Sort(out)
	return out, err
}

// skip returns the files to copy, with the offset of the first line of each.
func (c *copier) skip(old []string) (map[string]int64, error) {
	out := map[string]int64{c.path: 0}
	if c.Tail == nil {
		for _, path := range old {
			out[path] = 0
		}
		return out, nil
	}
	left := *c.Tail
	for _, path := range slices.Backward(append(slices.Clone(old), c.path)) {
		if left <= 0 && path != c.path {
			break
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		from, found, err := start(f, left)
		_ = f.Close() // only read
		if err != nil {
			return nil, err
		}
		out[path], left = from, left-found
	}
	return out, nil
}

// file copies a rotated file.
func (c *copier) file(path string, from int64) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by the next rotation
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	return c.lines(f)
}

func (c *copier) open(from int64) error {
	f, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.current = f
	_, err = f.Seek(from, io.SeekStart)
	return err
}

// follow copies the newest file, and after a rotation its successor.
func (c *copier) follow(ctx context.Context) error {
	for {
		more := c.Follow && c.More() // before the read: lines that are written before the end are still copied
		if c.current == nil {
			if err := c.open(0); err != nil {
				return err
			}
		}
		if c.current != nil {
			if err := c.lines(c.current); err != nil {
				return err
			}
			turned, err := c.turn()
			if err != nil {
				return err
			}
			if turned {
				continue
			}
		}
		if !more {
			return nil
		}
		if err := c.Wait(ctx); err != nil {
			return err
		}
	}
}

// turn opens the next file when the current one has been rotated, after it has copied the last lines of the current one.
func (c *copier) turn() (bool, error) {
	now, err := os.Stat(c.path)
	if err != nil {
		return false, nil //nolint:nilerr // the next file does not exist yet
	}
	was, err := c.current.Stat()
	if err != nil || os.SameFile(now, was) {
		return false, err
	}
	if err := c.lines(c.current); err != nil {
		return false, err
	}
	_ = c.current.Close() // only read
	c.current, c.rest = nil, nil
	return true, c.open(0)
}

// lines copies the lines of f from its offset to its end.
func (c *copier) lines(f io.Reader) error {
	r := bufio.NewReaderSize(f, block)
	for {
		part, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			c.rest = append(c.rest, part...)
			return nil
		}
		if err != nil {
			return err
		}
		if len(c.rest) > 0 {
			part, c.rest = append(c.rest, part...), nil
		}
		if err := c.line(part); err != nil {
			return err
		}
	}
}

func (c *copier) line(raw []byte) error {
	l, err := Parse(raw)
	if err != nil {
		return nil //nolint:nilerr // a malformed line is left out
	}
	if l.Time.Before(c.Since) || c.Stream != "" && c.Stream != l.Stream {
		return nil
	}
	text := l.Text
	if c.Timestamps && !c.inLine {
		text = append([]byte(l.Time.Format(timeFormat)+" "), text...)
	}
	c.inLine = l.Partial
	full := false
	if c.Limit > 0 {
		if left := c.Limit - c.written; int64(len(text)) >= left {
			text, full = text[:left], true
		}
	}
	n, err := c.out.Write(text)
	c.written += int64(n)
	if err == nil && full {
		return errLimit
	}
	return err
}
