package virtual

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The files: the current segment, and the one before it. Each is a row of blocks: length and checksum (4 bytes each), then
// the compressed objects, a line of JSON each.
const (
	currentFile  = "traces.current"
	previousFile = "traces.previous"
	segmentSize  = 8 << 20
	blockHead    = 8
	maxBlock     = 64 << 20
)

// segments appends to the files. It is used by one goroutine.
type segments struct {
	dir  string
	file *os.File
	size int64
	z    *flate.Writer // is large, and so made once
}

// openSegments hands the newest lines of the files to line, oldest first, about most bytes of them, and makes ready to
// append. What follows the first damaged block of a file, as a kill leaves it, is cut off.
func openSegments(dir string, most int, line func([]byte)) (*segments, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the traces: %w", err)
	}
	z, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	s := &segments{dir: dir, z: z}
	previous, _, err := readSegment(s.path(previousFile))
	if err != nil {
		return nil, err
	}
	current, size, err := readSegment(s.path(currentFile))
	if err != nil {
		return nil, err
	}
	for _, body := range newest(append(previous, current...), most) {
		for l := range bytes.Lines(body) {
			line(bytes.TrimSuffix(l, []byte("\n")))
		}
	}
	if s.file, err = os.OpenFile(s.path(currentFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open the traces: %w", err)
	}
	err = s.file.Truncate(size)
	if err == nil {
		s.size, err = s.file.Seek(size, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the traces: %w", err), s.file.Close())
	}
	return s, nil
}

func (s *segments) path(name string) string { return filepath.Join(s.dir, name) }

// readSegment returns the packed blocks of a file, and how much of it is whole.
func readSegment(path string) (blocks [][]byte, whole int64, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the traces: %w", err)
	}
	for {
		packed, rest, ok := cutBlock(raw[whole:])
		if !ok {
			return blocks, whole, nil
		}
		blocks = append(blocks, packed)
		whole = int64(len(raw) - len(rest))
	}
}

// cutBlock returns the packed content of the first block of b. ok is false where there is none, or not a whole one.
func cutBlock(b []byte) (packed, rest []byte, ok bool) {
	if len(b) < blockHead {
		return nil, nil, false
	}
	size, sum := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	b = b[blockHead:]
	if uint64(size) > uint64(len(b)) || crc32.ChecksumIEEE(b[:size]) != sum {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

// newest unpacks the last blocks until there are most bytes, and returns them in their order.
func newest(blocks [][]byte, most int) [][]byte {
	var out [][]byte
	for size := 0; len(blocks) > 0 && size < most; {
		last := len(blocks) - 1
		body, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(blocks[last])), maxBlock))
		if err != nil {
			break // of another version of the program: its checksum is right
		}
		out, size, blocks = append(out, body), size+len(body), blocks[:last]
	}
	slices.Reverse(out)
	return out
}

// block packs lines with the help of z.
func block(z *flate.Writer, lines [][]byte) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, blockHead))
	z.Reset(out)
	for _, l := range lines {
		if _, err := z.Write(append(l[:len(l):len(l)], '\n')); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	b := out.Bytes()
	binary.BigEndian.PutUint32(b, uint32(len(b)-blockHead))
	binary.BigEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[blockHead:]))
	return b, nil
}

// append adds a block of lines and turns to a new file when this one is full. A block that was written in part is taken
// back, so that those after it can be read.
func (s *segments) append(lines [][]byte) error {
	b, err := block(s.z, lines)
	if err != nil {
		return err
	}
	if s.size > 0 && s.size+int64(len(b)) > segmentSize {
		if err := s.turn(); err != nil {
			return err
		}
	}
	if _, err := s.file.Write(b); err != nil {
		_, serr := s.file.Seek(s.size, io.SeekStart)
		return errors.Join(err, s.file.Truncate(s.size), serr)
	}
	s.size += int64(len(b))
	return nil
}

// turn makes the current file the previous one.
func (s *segments) turn() error {
	if err := os.Rename(s.path(currentFile), s.path(previousFile)); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(currentFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	old := s.file
	s.file, s.size = f, 0
	return old.Close()
}

func (s *segments) close() { _ = s.file.Close() } // all that was written has been handed to the system
