package crilog

import (
	"bytes"
	"io"
	"os"
)

// block is the number of bytes of one read.
const block = 16 << 10

// start returns the offset of the last lines of f, and their number, which is lower if f has fewer. Each part of a long
// line counts as one.
func start(f io.ReadSeeker, lines int64) (from, found int64, err error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || lines <= 0 || end == 0 {
		return end, 0, err
	}
	buf := make([]byte, block)
	// No line follows the newline at the end of the file.
	for at := end; at > 0; {
		size := min(block, at)
		at -= size
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return 0, 0, err
		}
		if _, err := io.ReadFull(f, buf[:size]); err != nil {
			return 0, 0, err
		}
		for i := size - 1; i >= 0; i-- {
			if buf[i] != '\n' || at+i == end-1 {
				continue
			}
			if found++; found == lines {
				return at + i + 1, found, nil
			}
		}
	}
	return 0, found + 1, nil
}

// Tail returns the text of the last lines of a log file, at most limit bytes of it.
func Tail(path string, lines, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	from, _, err := start(f, lines)
	if err != nil {
		return "", err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	var out []byte
	for raw := range bytes.Lines(data) {
		if line, err := Parse(raw); err == nil {
			out = append(out, line.Text...)
		}
	}
	if over := int64(len(out)) - limit; over > 0 {
		out = out[over:]
	}
	return string(out), nil
}
