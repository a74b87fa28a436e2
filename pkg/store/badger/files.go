package badger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	db "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"golang.org/x/sys/unix"
)

// files is a read-only view of Badger's files: the tables that MANIFEST lists, and the logs of the writes that are in no table
// yet. It reads them as Badger does at its start, but changes nothing, where Badger deletes tables that MANIFEST does not list
// and truncates logs at the first entry that it cannot read. Badger's own read-only mode does the former, too.
type files struct {
	dir     string
	levels  [][]*tableFile
	logs    []*memLog
	values  map[string][]byte // the value logs
	maps    [][]byte
	repair  repair
	damaged error // the first damage that an iterator has found
}

// Bits in the metadata of an entry of Badger's logs and tables.
const (
	bitDelete  = 1 << 0
	bitPointer = 1 << 1 // the value is a pointer into the value log
	bitsTxn    = 1<<6 | 1<<7
)

const (
	logHeader   = 20 // the id of an encryption key and an initialisation vector
	maxLevels   = 7
	pointerSize = 12
)

// openFiles opens the files in dir. It returns fs.ErrNotExist when there is no database, and an error that names the file for
// damage that shows without reading the tables.
func openFiles(dir string) (*files, error) {
	names, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	f := &files{dir: dir, levels: make([][]*tableFile, maxLevels), values: map[string][]byte{}}
	if err := errors.Join(f.openTables(names), f.openLogs(names), f.checkValueLogs(names)); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// listFiles returns the names of the files in dir, sorted. Without any file of a database the error is fs.ErrNotExist. Badger
// creates MANIFEST before any other file.
func listFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Name() != db.ManifestFilename+"-REWRITE" {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, fs.ErrNotExist
	}
	if !slices.Contains(names, db.ManifestFilename) {
		return nil, errors.New("MANIFEST is missing")
	}
	return names, nil
}

func (f *files) openTables(names []string) error {
	m, err := readManifest(f.dir)
	if err != nil {
		return fmt.Errorf("MANIFEST: %w", err)
	}
	if m.torn {
		f.repair.end = m.end
	}
	for _, id := range m.numbers() {
		name, level := table.IDToFilename(id), m.tables[id].Level
		if level >= maxLevels || m.tables[id].KeyId != 0 {
			return fmt.Errorf("MANIFEST: the entry of %s is damaged", name)
		}
		if !slices.Contains(names, name) {
			f.repair.missing = append(f.repair.missing, id)
			continue
		}
		opened, err := openTable(f.dir, name, id)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.levels[level] = append(f.levels[level], opened)
	}
	for level, tables := range f.levels {
		slices.SortFunc(tables, func(a, b *tableFile) int {
			if level == 0 {
				return cmp.Compare(b.id, a.id) // newest first; their keys overlap
			}
			return y.CompareKeys(a.smallest, b.smallest)
		})
		for i := 1; level > 0 && i < len(tables); i++ {
			if y.CompareKeys(tables[i-1].biggest, tables[i].smallest) >= 0 {
				return fmt.Errorf("%s and %s have the same keys", tables[i-1].name, tables[i].name)
			}
		}
	}
	return nil
}

// recovered calls do, and returns a panic of Badger on damaged bytes, and a fault in the memory that maps a file, as an error.
func recovered(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = errTable
		}
	}()
	return do()
}

// memLog is the log of a table in memory, its entries in the order of their keys.
type memLog struct {
	keys   [][]byte
	values []y.ValueStruct
	at     int
}

// openLogs reads the logs, newest first.
func (f *files) openLogs(names []string) error {
	for _, name := range slices.Backward(names) {
		if !strings.HasSuffix(name, ".mem") {
			continue
		}
		l, err := f.openLog(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.logs = append(f.logs, l)
	}
	return nil
}

func (f *files) openLog(name string) (*memLog, error) {
	b, err := f.mapFile(name)
	if err != nil || len(b) < logHeader {
		return &memLog{}, err // a shorter log is one that a kill left before its first write
	}
	if binary.BigEndian.Uint64(b) != 0 {
		return nil, errors.New("the header is damaged")
	}
	l := &memLog{}
	for at := logHeader; ; {
		e, size := readEntry(b[at:])
		if size == 0 {
			break
		}
		if e.meta&bitsTxn != 0 {
			return nil, errors.New("an entry is of a kind that minikctl does not write")
		}
		at += size
		l.keys = append(l.keys, e.key)
		l.values = append(l.values, y.ValueStruct{Meta: e.meta, Value: e.value})
	}
	l.sort()
	return l, nil
}

// sort orders the entries by key. A key and version that was written twice has its last value first, and iterators show that one.
func (l *memLog) sort() {
	order := make([]int, len(l.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(y.CompareKeys(l.keys[a], l.keys[b]), b-a) })
	keys, values := make([][]byte, len(order)), make([]y.ValueStruct, len(order))
	for i, from := range order {
		keys[i], values[i] = l.keys[from], l.values[from]
	}
	l.keys, l.values = keys, values
}

// logEntry is an entry of a log: one change.
type logEntry struct {
	meta       byte
	key, value []byte // the key ends with the version
}

// readEntry decodes the first entry of b. size is 0 where the log ends: at zeros, or at an entry that is not whole.
func readEntry(b []byte) (e logEntry, size int) {
	if len(b) < 2 {
		return e, 0
	}
	e.meta = b[0]
	var fields [3]uint64 // length of the key, length of the value, expiry
	at := 2
	for i := range fields {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return e, 0
		}
		fields[i], at = v, at+n
	}
	klen, vlen := fields[0], fields[1]
	if klen <= 8 || klen > 1<<16 || vlen > uint64(len(b)) || uint64(at)+klen+vlen+crc32.Size > uint64(len(b)) {
		return e, 0
	}
	end := at + int(klen) + int(vlen)
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return e, 0
	}
	e.key, e.value = b[at:at+int(klen)], b[at+int(klen):end]
	return e, end + crc32.Size
}

// mapFile maps a file into memory until close.
func (f *files) mapFile(name string) ([]byte, error) {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	b, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	f.maps = append(f.maps, b)
	return b, nil
}

// checkValueLogs refuses headers with an encryption key, with which Badger would refuse the logs. The values are verified by
// follow.
func (f *files) checkValueLogs(names []string) error {
	for _, name := range names {
		if !strings.HasSuffix(name, ".vlog") {
			continue
		}
		b, err := f.mapFile(name)
		if err == nil && len(b) >= logHeader && binary.BigEndian.Uint64(b) != 0 {
			err = errors.New("the header is damaged")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.values[name] = b
	}
	return nil
}

// iterator returns an iterator over all versions of all keys: keys ascending, the versions of a key descending. It ends at a
// damaged block, which damaged names.
func (f *files) iterator() y.Iterator {
	var all []y.Iterator
	for _, l := range f.logs {
		all = append(all, &memLog{keys: l.keys, values: l.values})
	}
	failed := func(err error) {
		if f.damaged == nil {
			f.damaged = err
		}
	}
	for level, tables := range f.levels {
		if level > 0 && len(tables) > 0 {
			all = append(all, &tableIterator{tables: tables, failed: failed})
			continue
		}
		for i := range tables {
			all = append(all, &tableIterator{tables: tables[i : i+1], failed: failed})
		}
	}
	if len(all) == 0 {
		return &memLog{}
	}
	return table.NewMergeIterator(all, false)
}

// follow returns the entry in the value log that the entry of key points to.
func (f *files) follow(key, pointer []byte) (logEntry, error) {
	if len(pointer) != pointerSize {
		return logEntry{}, errCorrupt
	}
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(pointer[4*i:]) }
	file, size, offset := word(0), uint64(word(1)), uint64(word(2))
	name := fmt.Sprintf("%06d.vlog", file)
	b := f.values[name]
	if offset+size > uint64(len(b)) {
		return logEntry{}, fmt.Errorf("%s is missing or cut", name)
	}
	e, n := readEntry(b[offset : offset+size])
	if n == 0 || !bytes.Equal(e.key, key) {
		return logEntry{}, fmt.Errorf("%s is damaged", name)
	}
	return e, nil
}

// close closes the tables and unmaps the logs.
func (f *files) close() {
	for _, tables := range f.levels {
		for _, t := range tables {
			t.file.Close()
		}
	}
	for _, b := range f.maps {
		_ = unix.Munmap(b)
	}
}

// Next implements y.Iterator, as the methods below do.
func (l *memLog) Next() { l.at++ }

// Rewind implements y.Iterator.
func (l *memLog) Rewind() { l.at = 0 }

// Seek implements y.Iterator.
func (l *memLog) Seek(key []byte) {
	l.at, _ = slices.BinarySearchFunc(l.keys, key, y.CompareKeys)
}

// Key implements y.Iterator.
func (l *memLog) Key() []byte { return l.keys[l.at] }

// Value implements y.Iterator.
func (l *memLog) Value() y.ValueStruct { return l.values[l.at] }

// Valid implements y.Iterator.
func (l *memLog) Valid() bool { return l.at < len(l.keys) }

// Close implements y.Iterator.
func (l *memLog) Close() error { return nil }
