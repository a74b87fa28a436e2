package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	db "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"google.golang.org/protobuf/proto"
)

// manifest is the content of MANIFEST: the tables of a database. The file is a header and records of changes, to which Badger
// appends.
type manifest struct {
	tables map[uint64]*pb.ManifestChange // by number
	// end is the offset after the last record that is whole, and torn means that something else follows. A loss of power can leave
	// a part of the last record, and Badger refuses to open with it.
	end  int64
	torn bool
}

const (
	manifestHeader  = "Bdgr\x00\x00\x00\x08" // with the version of the format
	manifestNumbers = 8                      // length and checksum before each record
)

func readManifest(dir string) (*manifest, error) {
	b, err := os.ReadFile(filepath.Join(dir, db.ManifestFilename))
	if err != nil {
		return nil, err
	}
	if len(b) < len(manifestHeader) || string(b[:len(manifestHeader)]) != manifestHeader {
		return nil, errors.New("the header is damaged")
	}
	m := &manifest{tables: map[uint64]*pb.ManifestChange{}, end: int64(len(manifestHeader))}
	for b = b[len(manifestHeader):]; len(b) >= manifestNumbers; {
		length, sum := uint64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		if length > uint64(len(b)-manifestNumbers) {
			break
		}
		record := b[manifestNumbers : manifestNumbers+length]
		if crc32.Checksum(record, castagnoli) != sum {
			break
		}
		if err := m.apply(record); err != nil {
			return nil, err
		}
		b = b[manifestNumbers+length:]
		m.end += int64(manifestNumbers + length)
	}
	m.torn = len(b) > 0
	return m, nil
}

func (m *manifest) apply(record []byte) error {
	var set pb.ManifestChangeSet
	if err := proto.Unmarshal(record, &set); err != nil {
		return err
	}
	for _, c := range set.Changes {
		switch {
		case c.Op == pb.ManifestChange_DELETE:
			delete(m.tables, c.Id)
		case m.tables[c.Id] != nil:
			return fmt.Errorf("table %d is created twice", c.Id)
		default:
			m.tables[c.Id] = c
		}
	}
	return nil
}

// numbers returns the numbers of the tables, sorted.
func (m *manifest) numbers() []uint64 { return slices.Sorted(maps.Keys(m.tables)) }

// repair is what must change in MANIFEST before Badger can open the database. It is made only when the digest has shown that nothing
// is missing without it.
type repair struct {
	end     int64    // where the file is cut; 0: nowhere
	missing []uint64 // tables that are listed and not there: their names were lost with the power
}

func (r repair) needed() bool { return r.end > 0 || len(r.missing) > 0 }

// explain adds to the error of a store that is not whole what is wrong with its tables.
func (r repair) explain(err error) error {
	if err == nil || !r.needed() {
		return err
	}
	var wrong []string
	if r.end > 0 {
		wrong = append(wrong, "MANIFEST is damaged")
	}
	for _, id := range r.missing {
		wrong = append(wrong, table.IDToFilename(id)+" is missing")
	}
	return fmt.Errorf("%s: %w", strings.Join(wrong, ", "), err)
}

// apply changes MANIFEST in dir.
func (r repair) apply(dir string) error {
	if !r.needed() {
		return nil
	}
	slog.Warn("the end of MANIFEST, or the names of tables, were lost; every object is there", "file", db.ManifestFilename, "tables", r.missing)
	f, err := os.OpenFile(filepath.Join(dir, db.ManifestFilename), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if r.end > 0 {
		err = f.Truncate(r.end)
	}
	if len(r.missing) > 0 && err == nil {
		err = appendDeletions(f, r.missing)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func appendDeletions(f *os.File, tables []uint64) error {
	var set pb.ManifestChangeSet
	for _, id := range tables {
		set.Changes = append(set.Changes, &pb.ManifestChange{Id: id, Op: pb.ManifestChange_DELETE})
	}
	record, err := proto.Marshal(&set)
	if err != nil {
		return err
	}
	numbers := binary.BigEndian.AppendUint32(nil, uint32(len(record)))
	numbers = binary.BigEndian.AppendUint32(numbers, crc32.Checksum(record, castagnoli))
	_, err = f.Write(append(numbers, record...))
	return err
}
