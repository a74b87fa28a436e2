package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// tableFile is one of Badger's tables: blocks of sorted entries, then an index of the blocks. It is read in pieces, and not mapped:
// to map the pages of a file costs several times the time that reading them takes.
type tableFile struct {
	name              string
	id                uint64
	file              *os.File
	index             *fb.TableIndex
	smallest, biggest []byte
}

const (
	word        = 4 // bytes of a length in a table
	entryHeader = 4 // of an entry: how much of the first key it shares, and the length of the rest
	chunkBytes  = 128 << 10
)

var errTable = errors.New("the file is cut or damaged")

// openTable opens a table and verifies its index.
func openTable(dir, name string, id uint64) (*tableFile, error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	t := &tableFile{name: name, id: id, file: file}
	err = recovered(func() error {
		if err := t.readIndex(); err != nil {
			return err
		}
		return t.readBounds()
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return t, nil
}

// readIndex reads the index, which is followed by its length, its checksum, and the length of the checksum.
func (t *tableFile) readIndex() error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	before := func(size int64) ([]byte, error) {
		if size < 0 || size > end {
			return nil, errTable
		}
		end -= size
		b := make([]byte, size)
		_, err := t.file.ReadAt(b, end)
		return b, err
	}
	sized := func() ([]byte, error) {
		b, err := before(word)
		if err != nil {
			return nil, err
		}
		return before(int64(binary.BigEndian.Uint32(b)))
	}
	sum, err := sized()
	if err != nil {
		return err
	}
	index, err := sized()
	if err != nil {
		return err
	}
	if err := verifySum(index, sum); err != nil {
		return err
	}
	t.index = fb.GetRootAsTableIndex(index, 0)
	return nil
}

// readBounds sets the smallest and the biggest key.
func (t *tableFile) readBounds() error {
	blocks := t.index.OffsetsLength()
	if blocks == 0 {
		return errTable
	}
	t.smallest = bytes.Clone(t.offset(0).KeyBytes())
	it := &tableIterator{tables: []*tableFile{t}}
	if err := it.load(blocks-1, false); err != nil {
		return err
	}
	it.entry(len(it.offsets) - 1)
	t.biggest = bytes.Clone(it.key)
	return nil
}

// offset returns the place of a block.
func (t *tableFile) offset(block int) *fb.BlockOffset {
	var at fb.BlockOffset
	y.AssertTrue(t.index.Offsets(&at, block))
	return &at
}

// verifySum compares data with an encoded pb.Checksum.
func verifySum(data, sum []byte) error {
	const sumField = 2 << 3 // the algorithm is CRC-32C, which has the value 0 and so is left out
	if len(sum) > 1 && sum[0] == sumField {
		if want, n := binary.Uvarint(sum[1:]); n == len(sum)-1 {
			if uint64(crc32.Checksum(data, castagnoli)) != want {
				return errTable
			}
			return nil
		}
	}
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return errTable
	}
	return y.VerifyChecksum(data, &want)
}

// tableIterator is an iterator over tables whose keys ascend: one of level 0, or those of another level. It verifies the
// checksum of each block that it reads, and ends at a damaged one.
type tableIterator struct {
	tables []*tableFile
	failed func(error) // is called with the error of a damaged block

	at      int // the table
	block   int
	current int      // the entry in the block
	data    []byte   // the entries of the block
	offsets []uint32 // of the entries in data
	key     []byte   // of the current entry
	value   []byte
	valid   bool

	chunk []byte // a piece of the file of the table
	from  int64  // where it begins
	of    *tableFile
}

// load reads a block of the current table. ahead means that the blocks behind it are needed, too.
func (it *tableIterator) load(block int, ahead bool) error {
	t := it.tables[it.at]
	place := t.offset(block)
	offset, size := int64(place.Offset()), int64(place.Len())
	if it.of != t || offset < it.from || offset+size > it.from+int64(len(it.chunk)) {
		if err := it.read(t, offset, size, ahead); err != nil {
			return err
		}
	}
	b := it.chunk[offset-it.from:][:size]
	cut := func(n int) (tail []byte) {
		tail, b = b[len(b)-n:], b[:len(b)-n]
		return tail
	}
	sum := cut(int(binary.BigEndian.Uint32(cut(word))))
	if err := verifySum(b, sum); err != nil {
		return err
	}
	offsets := cut(word * int(binary.BigEndian.Uint32(cut(word))))
	it.offsets = it.offsets[:0]
	for i := 0; i < len(offsets); i += word {
		it.offsets = append(it.offsets, binary.NativeEndian.Uint32(offsets[i:]))
	}
	it.block, it.data = block, b
	return nil
}

// read reads the piece of a table that begins at offset.
func (it *tableIterator) read(t *tableFile, offset, size int64, ahead bool) error {
	if ahead {
		last := t.offset(t.index.OffsetsLength() - 1)
		size = max(size, min(chunkBytes, int64(last.Offset())+int64(last.Len())-offset))
	}
	it.chunk = slices.Grow(it.chunk[:0], int(size))[:size]
	it.of, it.from = t, offset
	if _, err := t.file.ReadAt(it.chunk, offset); err != nil {
		it.of = nil
		return errTable
	}
	return nil
}

// entry sets the key and the value to those of an entry of the block. A key is stored as what differs from the first one.
func (it *tableIterator) entry(i int) {
	end := len(it.data)
	if i+1 < len(it.offsets) {
		end = int(it.offsets[i+1])
	}
	first, e := it.data, it.data[it.offsets[i]:end]
	shared, rest := int(binary.NativeEndian.Uint16(e)), int(binary.NativeEndian.Uint16(e[2:]))
	it.key = append(it.key[:0], first[entryHeader:][:shared]...)
	it.key = append(it.key, e[entryHeader:][:rest]...)
	it.value = e[entryHeader+rest:]
	it.current, it.valid = i, true
}

// start goes to the first entry of a block of the current table.
func (it *tableIterator) start(block int, ahead bool) {
	err := recovered(func() error {
		if err := it.load(block, ahead); err != nil {
			return err
		}
		it.entry(0)
		return nil
	})
	if err != nil {
		it.failed(fmt.Errorf("%s: %w", it.tables[it.at].name, err))
		it.valid, it.at = false, len(it.tables)
	}
}

// Next implements y.Iterator, as the methods below do.
func (it *tableIterator) Next() {
	switch {
	case it.at == len(it.tables):
		it.valid = false
	case it.current+1 < len(it.offsets):
		it.entry(it.current + 1)
	case it.block+1 < it.tables[it.at].index.OffsetsLength():
		it.start(it.block+1, true)
	default:
		it.at++
		if it.valid = it.at < len(it.tables); it.valid {
			it.start(0, true)
		}
	}
}

// Rewind implements y.Iterator.
func (it *tableIterator) Rewind() {
	it.at = 0
	it.start(0, true)
}

// Seek implements y.Iterator.
func (it *tableIterator) Seek(key []byte) {
	it.at = sort.Search(len(it.tables), func(i int) bool { return y.CompareKeys(it.tables[i].biggest, key) >= 0 })
	if it.valid = it.at < len(it.tables); !it.valid {
		return
	}
	t := it.tables[it.at]
	behind := sort.Search(t.index.OffsetsLength(), func(i int) bool { return y.CompareKeys(t.offset(i).KeyBytes(), key) > 0 })
	it.start(max(0, behind-1), false)
	for it.valid && y.CompareKeys(it.key, key) < 0 {
		it.Next()
	}
}

// Key implements y.Iterator.
func (it *tableIterator) Key() []byte { return it.key }

// Value implements y.Iterator.
func (it *tableIterator) Value() (v y.ValueStruct) {
	v.Decode(it.value)
	return v
}

// Valid implements y.Iterator.
func (it *tableIterator) Valid() bool { return it.valid }

// Close implements y.Iterator.
func (it *tableIterator) Close() error { return nil }
