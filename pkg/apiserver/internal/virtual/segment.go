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

// There are two files: the current segment and the previous one. Each is a sequence of blocks. A block is a length and a checksum
// (4 bytes each), then compressed JSON, one line for each object.
const (
	currentFile  = "traces.current"
	previousFile = "traces.previous"
	segmentSize  = 8 << 20
	blockHead    = 8
	maxBlock     = 64 << 20
)

// segments appends to the files. It is not safe for concurrent use.
type segments struct {
	dir  string
	file *os.File
	size int64
	z    *flate.Writer // reused, since it is large
}

// openSegments calls line for the newest lines of the files, about most bytes of them, oldest first, and opens the
// current file for append. It truncates a file at the first damaged block, which a kill during a write leaves behind.
func openSegments(dir string, most int, line func([]byte)) (*segments, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the traces: %w", err)
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

// readSegment returns the compressed blocks of a file, and the size of its undamaged part.
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

// cutBlock returns the compressed content of the first block of b, and the rest of b. ok is false without a whole block.
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

// newest uncompresses the last blocks, until they have most bytes, and returns them in order.
func newest(blocks [][]byte, most int) [][]byte {
	var out [][]byte
	for size := 0; len(blocks) > 0 && size < most; {
		last := len(blocks) - 1
		body, err := unpack(blocks[last])
		if err != nil {
			break // written by another version of the program, since its checksum is right
		}
		out, size, blocks = append(out, body), size+len(body), blocks[:last]
	}
	slices.Reverse(out)
	return out
}

// unpack returns the lines of a compressed block.
func unpack(packed []byte) ([]byte, error) {
	return io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxBlock))
}

// block compresses lines with z.
func block(z *flate.Writer, lines [][]byte) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, blockHead))
	z.Reset(out)
	newline := []byte{'\n'}
	for _, l := range lines {
		if _, err := z.Write(l); err != nil {
			return nil, err
		}
		if _, err := z.Write(newline); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	b := bytes.Clone(out.Bytes())
	binary.BigEndian.PutUint32(b, uint32(len(b)-blockHead))
	binary.BigEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[blockHead:]))
	return b, nil
}

// append adds a block of lines, to a new file when the current one is full, and returns its compressed content. It removes a block
// that was written in part, so that later blocks can be read.
func (s *segments) append(lines [][]byte) (packed []byte, err error) {
	b, err := block(s.z, lines)
	if err != nil {
		return nil, err
	}
	if s.size > 0 && s.size+int64(len(b)) > segmentSize {
		if err := s.rotate(); err != nil {
			return nil, err
		}
	}
	if _, err := s.file.Write(b); err != nil {
		_, serr := s.file.Seek(s.size, io.SeekStart)
		return nil, errors.Join(err, s.file.Truncate(s.size), serr)
	}
	s.size += int64(len(b))
	return b[blockHead:], nil
}

// rotate makes the current file the previous one.
func (s *segments) rotate() error {
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

func (s *segments) close() { _ = s.file.Close() } // the kernel has all writes
