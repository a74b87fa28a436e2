package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestDamagedBackup damages a backup: each length that it can be cut to, each bit flipped, each two bytes swapped, and bytes after its
// end. A reader returns ErrDamaged for all of them but those in bits that gzip does not use (the time and the system in its header,
// the bits between its blocks): with these the unpacked text is the same, and all objects are read as they were.
func TestDamagedBackup(t *testing.T) {
	whole := someBackup(t)
	text, err := unpack(whole)
	if err != nil {
		t.Fatal(err)
	}
	want, sum, err := readAll(whole)
	if err != nil || len(want) != 5 || sum.Objects != 5 || sum.Revision != 7 {
		t.Fatalf("the whole backup: %d objects, %+v, %v", len(want), sum, err)
	}
	harmless := 0
	try := func(name string, damaged []byte) {
		t.Helper()
		got, gotSum, err := readAll(damaged)
		if errors.Is(err, backup.ErrDamaged) {
			return
		}
		same, unpackErr := unpack(damaged)
		if err != nil || unpackErr != nil || !bytes.Equal(same, text) {
			t.Errorf("%s: got %v, want %v", name, err, backup.ErrDamaged)
		} else if !reflect.DeepEqual(got, want) || gotSum != sum {
			t.Errorf("%s: read without an error, but differs", name)
		}
		harmless++
	}
	for i := range whole {
		try(fmt.Sprintf("cut to %d bytes", i), whole[:i])
	}
	try("a byte more", append(bytes.Clone(whole), 0))
	try("twice", append(bytes.Clone(whole), whole...))
	if harmless > 0 {
		t.Errorf("%d cut or extended backups were read", harmless)
	}
	for i := range whole {
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << bit
			try(fmt.Sprintf("byte %d, bit %d flipped", i, bit), flipped)
		}
	}
	if most := 8 * 10; harmless > most {
		t.Errorf("%d of %d flipped bits have no effect, want at most %d", harmless, 8*len(whole), most)
	}
	for i := range whole {
		for j := range i {
			swapped := bytes.Clone(whole)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			try(fmt.Sprintf("bytes %d and %d swapped", j, i), swapped)
		}
	}
}

// TestDamagedContent damages what is below gzip's checksum: the backup is packed again, so that only its own SHA-256 shows it.
func TestDamagedContent(t *testing.T) {
	text, err := unpack(someBackup(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		for bit := range 8 {
			flipped := bytes.Clone(text)
			flipped[i] ^= 1 << bit
			if _, _, err := readAll(pack(t, flipped)); !errors.Is(err, backup.ErrDamaged) {
				t.Errorf("byte %d, bit %d flipped: got %v, want %v", i, bit, err, backup.ErrDamaged)
			}
		}
		if _, _, err := readAll(pack(t, text[:i])); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("cut to %d bytes: got %v, want %v", i, err, backup.ErrDamaged)
		}
	}
	if _, _, err := readAll(pack(t, append(text, 0))); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("a byte more: got %v, want %v", err, backup.ErrDamaged)
	}
}

// someBackup returns a backup of five objects. One of them was changed and one deleted before.
func someBackup(t *testing.T) []byte {
	t.Helper()
	s := memory.New()
	defer s.Close()
	ops := []store.Op{{Key: "k/gone", Value: []byte("gone")}}
	for i := range 5 {
		ops = append(ops, store.Op{Key: fmt.Sprint("k/", i), Value: fmt.Append(nil, "value ", i)})
	}
	for _, batch := range [][]store.Op{ops, {{Key: "k/gone"}}} {
		if _, err := s.Write(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := backup.Write(t.Context(), s, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readAll(b []byte) (all []store.Entry, sum backup.Summary, err error) {
	sum, err = backup.Read(bytes.NewReader(b), func(e store.Entry) error { all = append(all, e); return nil })
	return all, sum, err
}

func unpack(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func pack(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pages is a store that records the largest page of values that it has listed, in bytes.
type pages struct {
	store.Store
	largest int
}

func (s *pages) List(ctx context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	page, err := s.Store.List(ctx, prefix, opts)
	size := 0
	for _, e := range page.Entries {
		size += len(e.Value)
	}
	s.largest = max(s.largest, size)
	return page, err
}

// TestLargeObjects backs up large objects, and expects that few of them are read at a time.
func TestLargeObjects(t *testing.T) {
	const size, objects, most = 1 << 20, 12, 6 << 20
	s := &pages{Store: memory.New()}
	defer s.Close()
	for i := range objects {
		if _, err := s.Write(t.Context(), store.Op{Key: fmt.Sprint("k/", i), Value: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := backup.Write(t.Context(), s, io.Discard)
	if err != nil || sum.Objects != objects {
		t.Fatalf("got %+v, %v", sum, err)
	}
	if s.largest > most {
		t.Errorf("%d bytes are read at a time, want %d at most", s.largest, most)
	}
}
