// Package backup owns the format of backups: all objects of a store at one revision, with their revisions. It works on every
// store, while the store is written to.
//
// A backup is a gzip stream: a first line, the revision, each object in the order of the keys, a zero, the number of objects, and
// the SHA-256 of all that. Numbers are varints.
package backup

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/minikctl/minikctl/pkg/store"
)

const firstLine = "minikctl store backup 1\n"

// How many objects are read from the store at a time, and how many bytes.
const (
	pageSize  = 256
	pageBytes = 4 << 20
)

// maxLength bounds the keys and values that a reader accepts, so that a damaged length does not take all memory.
const maxLength = 64 << 20

// ErrDamaged means that a backup is not whole.
var ErrDamaged = errors.New("backup is cut or damaged")

// Summary describes a backup.
type Summary struct {
	Revision store.Revision
	Objects  uint64
}

// Write writes all objects of s at its newest revision to w. It returns store.ErrCompacted when the store is compacted beyond that
// revision meanwhile.
func Write(ctx context.Context, s store.Store, w io.Writer) (Summary, error) {
	packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return Summary{}, err
	}
	out := &writer{to: bufio.NewWriter(packed), sum: sha256.New()}
	sum, err := out.objects(ctx, s)
	if err != nil {
		return sum, fmt.Errorf("write backup: %w", err)
	}
	out.number(0)
	out.number(sum.Objects)
	if _, err := out.to.Write(out.sum.Sum(nil)); err != nil {
		return sum, fmt.Errorf("write backup: %w", err)
	}
	if err := errors.Join(out.err, out.to.Flush(), packed.Close()); err != nil {
		return sum, fmt.Errorf("write backup: %w", err)
	}
	return sum, nil
}

type writer struct {
	to  *bufio.Writer
	sum hash.Hash
	err error
}

func (w *writer) bytes(b []byte) {
	if w.err == nil {
		w.sum.Write(b)
		_, w.err = w.to.Write(b)
	}
}

func (w *writer) number(n uint64) { w.bytes(binary.AppendUvarint(nil, n)) }

func (w *writer) objects(ctx context.Context, s store.Store) (Summary, error) {
	opts := store.ListOptions{Limit: pageSize, Bytes: pageBytes}
	page, err := s.List(ctx, "", opts)
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{Revision: page.Revision}
	w.bytes([]byte(firstLine))
	w.number(uint64(sum.Revision))
	for {
		for _, e := range page.Entries {
			w.number(uint64(len(e.Key)))
			w.bytes([]byte(e.Key))
			w.number(uint64(e.Created))
			w.number(uint64(e.Modified))
			w.number(uint64(len(e.Value)))
			w.bytes(e.Value)
			sum.Objects++
		}
		if !page.More || w.err != nil {
			return sum, w.err
		}
		opts.At, opts.After = sum.Revision, page.Entries[len(page.Entries)-1].Key
		if page, err = s.List(ctx, "", opts); err != nil {
			return sum, err
		}
	}
}

// Read calls object with each object of a backup, and returns ErrDamaged when the backup is not whole. Only without an error are
// the objects all, and as they were: a caller discards them otherwise.
func Read(r io.Reader, object func(store.Entry) error) (Summary, error) {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return Summary{}, ErrDamaged
	}
	in := &reader{from: bufio.NewReader(packed), sum: sha256.New()}
	line := in.bytes(uint64(len(firstLine)))
	if in.failed || string(line) != firstLine {
		return Summary{}, ErrDamaged
	}
	sum := Summary{Revision: store.Revision(in.number())}
	for {
		length := in.number()
		if in.failed {
			return sum, ErrDamaged
		}
		if length == 0 {
			return sum, in.end(sum.Objects)
		}
		e := store.Entry{
			Key: string(in.bytes(length)), Created: store.Revision(in.number()), Modified: store.Revision(in.number()),
			Value: in.bytes(in.number()),
		}
		if in.failed || e.Created == 0 || e.Created > e.Modified || e.Modified > sum.Revision {
			return sum, ErrDamaged
		}
		if err := object(e); err != nil {
			return sum, err
		}
		sum.Objects++
	}
}

type reader struct {
	from   *bufio.Reader
	sum    hash.Hash
	failed bool
}

// ReadByte implements io.ByteReader for varints.
func (r *reader) ReadByte() (byte, error) {
	b, err := r.from.ReadByte()
	r.sum.Write([]byte{b})
	return b, err
}

func (r *reader) number() uint64 {
	n, err := binary.ReadUvarint(r)
	r.failed = r.failed || err != nil
	return n
}

func (r *reader) bytes(length uint64) []byte {
	if r.failed || length > maxLength {
		r.failed = true
		return nil
	}
	b := make([]byte, length)
	if _, err := io.ReadFull(r.from, b); err != nil {
		r.failed = true
		return nil
	}
	r.sum.Write(b)
	return b
}

// end verifies what follows the objects. Reading to the end of the stream verifies gzip's own checksum, too.
func (r *reader) end(objects uint64) error {
	count := r.number()
	want := r.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.from, got); err != nil || r.failed || count != objects || string(got) != string(want) {
		return ErrDamaged
	}
	if _, err := r.from.ReadByte(); !errors.Is(err, io.EOF) {
		return ErrDamaged
	}
	return nil
}
