package badger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// record returns a record of MANIFEST with one change.
func record(t *testing.T, op pb.ManifestChange_Operation, id uint64) []byte {
	t.Helper()
	b, err := proto.Marshal(&pb.ManifestChangeSet{Changes: []*pb.ManifestChange{{Id: id, Op: op}}})
	if err != nil {
		t.Fatal(err)
	}
	numbers := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	return append(binary.BigEndian.AppendUint32(numbers, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))), b...)
}

func appendTo(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestTornManifest opens stores whose last record of MANIFEST is on disk in part, as a loss of power can leave it. Badger refuses most
// of them.
func TestTornManifest(t *testing.T) {
	whole := record(t, pb.ManifestChange_DELETE, 1)
	for name, part := range map[string][]byte{
		"cut":            whole[:len(whole)-1],
		"end lost":       append(bytes.Clone(whole[:len(whole)-1]), 0),
		"begin lost":     append(make([]byte, 6), whole[6:]...),
		"checksum lost":  append(append(bytes.Clone(whole[:4]), 0, 0, 0, 0), whole[8:]...),
		"all lost":       make([]byte, len(whole)),
		"another's size": bytes.Repeat([]byte{0xff}, 30),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, 10)
			appendTo(t, filepath.Join(dir, "badger", "MANIFEST"), part)
			for range 2 {
				fill(t, dir, 1)
				s := open(t, dir)
				if n := len(contentOf(t, s)); n != 10 {
					t.Errorf("%d objects, want 10", n)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestLostTable opens stores with a table that MANIFEST lists and that is not there, as a loss of power can leave it on a file system
// that does not write the name of a file with its content. The table's changes are still in its log. Without the log the store is
// refused.
func TestLostTable(t *testing.T) {
	killed := killedStore(t)
	for name, withLog := range map[string]bool{"with its log": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			if err := killed.files.writeTo(dir); err != nil {
				t.Fatal(err)
			}
			appendTo(t, filepath.Join(dir, "badger", "MANIFEST"), record(t, pb.ManifestChange_CREATE, 77))
			if !withLog {
				logs, err := filepath.Glob(filepath.Join(dir, "badger", "*.mem"))
				for _, log := range logs {
					err = errors.Join(err, os.Remove(log))
				}
				if err != nil || len(logs) == 0 {
					t.Fatal(logs, err)
				}
				_, err = badger.Open(badger.Config{Dir: dir})
				if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "000077.sst is missing") {
					t.Errorf("got %v, want %v", err, store.ErrDamaged)
				}
				return
			}
			for range 2 {
				s := open(t, dir)
				if !contentOf(t, s).equal(killed.want) {
					t.Error("the objects differ")
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
