//go:build linux && (amd64 || arm64)

package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// disk models what a loss of power leaves of the files in a directory that an observed process uses.
//
// What a file held when it was last synced is durable. Of what was written since, any page may be on disk or not. Changes of names,
// and of sizes by ftruncate, are durable once their directory (their file) is synced. Those since then reach the disk in their order, as
// on a file system with a journal: some of them, from the oldest on, are on disk.
type disk struct {
	dir     string
	root    *node
	nodes   map[uint64]*node // by inode number
	changes []*change        // not durable, in their order

	syncs, tables int // counted for the log
}

// node is a file or a directory. It is open, so that it can be read after its name was removed.
type node struct {
	file    *os.File
	names   map[string]*node // of a directory: the durable ones
	durable stored
	direct  bool // each write is durable (O_DSYNC)
}

// stored is what a file holds, without the zeros at its end.
type stored struct {
	data []byte
	size int64
}

// change is a change of names in directories, or of a file's size.
type change struct {
	names   []naming
	created string // the path of a file that is about to be created
	from    string // the path that a file is about to lose
	lost    *node  // that file
	direct  bool
	cut     *node
	size    int64
}

// naming gives a name in a directory to a node; nil removes the name.
type naming struct {
	dir  *node
	name string
	node *node
}

// newDisk returns the model of the files that are in dir, all of them durable.
func newDisk(dir string) (*disk, error) {
	d := &disk{dir: dir, nodes: map[uint64]*node{}}
	var err error
	d.root, err = d.add(dir, true)
	return d, err
}

// add returns the node of a path. A directory's files are added with it.
func (d *disk) add(path string, durable bool) (*node, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	n := &node{file: f}
	d.nodes[st.Ino] = n
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if durable {
			n.durable, err = n.read()
		}
		return n, err
	}
	n.names = map[string]*node{}
	if !durable {
		return n, nil
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		child, addErr := d.add(filepath.Join(path, e.Name()), true)
		err = errors.Join(err, addErr)
		n.names[e.Name()] = child
	}
	return n, err
}

func (d *disk) close() {
	for _, n := range d.nodes {
		n.file.Close()
	}
}

// read returns what the file holds now. It skips holes.
func (n *node) read() (stored, error) {
	fd := int(n.file.Fd())
	size, err := unix.Seek(fd, 0, unix.SEEK_END)
	c := stored{size: size}
	for at := int64(0); err == nil && at < size; {
		if at, err = unix.Seek(fd, at, unix.SEEK_DATA); errors.Is(err, unix.ENXIO) {
			return c, nil
		}
		end := at
		if err == nil {
			end, err = unix.Seek(fd, at, unix.SEEK_HOLE)
		}
		c.data = append(c.data, make([]byte, max(0, end-int64(len(c.data))))...)
		for at < end && err == nil {
			var k int
			if k, err = unix.Pread(fd, c.data[at:end], at); k == 0 && err == nil {
				return c, nil // cut meanwhile
			}
			at += int64(k)
		}
	}
	c.data = bytes.TrimRight(c.data, "\x00")
	return c, err
}

// of returns the node of a path, or nil.
func (d *disk) of(path string) *node {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return nil
	}
	return d.nodes[st.Ino]
}

// look finds the files that were about to be created, and are there.
func (d *disk) look() error {
	for _, c := range d.changes {
		if c.created == "" {
			continue
		}
		n, err := d.add(c.created, false)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		n.direct = c.direct
		c.names[0].node, c.created = n, ""
	}
	return nil
}

// naming returns what gives a path to a node.
func (d *disk) naming(path string, n *node) naming {
	return naming{d.of(filepath.Dir(path)), filepath.Base(path), n}
}

// handle takes note of a call, and reports whether it is done: a sync needs no kernel. What a call changes was not yet changed.
func (d *disk) handle(c *call) (done bool, err error) {
	if err := d.look(); err != nil {
		return false, err
	}
	switch c.nr {
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_MSYNC:
		n := d.nodes[c.inode()]
		if n == nil {
			return false, nil
		}
		d.syncs++
		return true, d.sync(n)
	case unix.SYS_FTRUNCATE:
		if n := d.nodes[c.inode()]; n != nil {
			d.changes = append(d.changes, &change{cut: n, size: int64(c.args[1])})
		}
	case unix.SYS_UNLINKAT:
		path := c.path(1)
		if n := d.of(path); n != nil {
			d.changes = append(d.changes, &change{names: []naming{d.naming(path, nil)}, from: path, lost: n})
		}
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		from, to := c.path(1), c.path(3)
		if n := d.of(from); n != nil {
			d.changes = append(d.changes, &change{names: []naming{d.naming(from, nil), d.naming(to, n)}, from: from, lost: n})
		}
	case unix.SYS_OPENAT, unix.SYS_MKDIRAT:
		path := c.path(1)
		if !strings.HasPrefix(path, d.dir) || d.of(path) != nil {
			return false, nil
		}
		if filepath.Ext(path) == ".sst" {
			d.tables++
		}
		direct := c.nr == unix.SYS_OPENAT && c.args[2]&unix.O_DSYNC != 0
		d.changes = append(d.changes, &change{names: []naming{d.naming(path, nil)}, created: path, direct: direct})
	}
	return false, nil
}

// settle drops the changes that a killed process was about to make and has not made.
func (d *disk) settle() error {
	if err := d.look(); err != nil {
		return err
	}
	var err error
	d.changes = slices.DeleteFunc(d.changes, func(c *change) bool {
		if c.cut != nil {
			now, readErr := c.cut.read()
			err = errors.Join(err, readErr)
			return now.size != c.size
		}
		return c.created != "" || c.lost != nil && d.of(c.from) == c.lost
	})
	return err
}

// sync makes a file or the names of a directory durable.
func (d *disk) sync(n *node) error {
	if n.names == nil {
		d.changes = slices.DeleteFunc(d.changes, func(c *change) bool { return c.cut == n })
		var err error
		n.durable, err = n.read()
		return err
	}
	d.changes = slices.DeleteFunc(d.changes, func(c *change) bool {
		if c.created != "" || len(c.names) == 0 || c.names[len(c.names)-1].dir != n {
			return false
		}
		for _, e := range c.names {
			e.apply(e.dir.names)
		}
		return true
	})
	return nil
}

func (e naming) apply(names map[string]*node) {
	if e.node == nil {
		delete(names, e.name)
	} else {
		names[e.name] = e.node
	}
}

// loss is how much of what was not synced is lost.
type loss int

const (
	allLost loss = iota
	allKept
	pagesLost   // any pages
	sectorsLost // any sectors of 512 bytes
	torn        // all after a sector
	lossKinds
)

func (l loss) String() string {
	return [...]string{"all lost", "all kept", "pages lost", "sectors lost", "torn"}[l]
}

// image is what a loss of power leaves.
type image struct {
	name  string
	dirs  []string
	files files
}

// lose returns what a loss of power leaves now. The process may run meanwhile: what it changes is not synced before the next call.
func (d *disk) lose(l loss, rng *rand.Rand) (*image, error) {
	if err := d.look(); err != nil {
		return nil, err
	}
	kept := map[loss]int{allLost: 0, allKept: len(d.changes)}
	n, fixed := kept[l]
	if !fixed {
		n = rng.IntN(len(d.changes) + 1)
	}
	on := d.changes[:n]
	im := &image{name: fmt.Sprintf("%v, %d of %d changes of names and sizes kept", l, n, len(d.changes)), files: files{}}
	return im, d.save(im, "", d.root, func(n *node) (stored, error) { return d.left(n, on, l, rng) }, on)
}

func (d *disk) save(im *image, path string, n *node, left func(*node) (stored, error), on []*change) error {
	if n.names == nil {
		c, err := left(n)
		im.files[path] = file{string(c.data), c.size}
		return err
	}
	im.dirs = append(im.dirs, path)
	names := maps.Clone(n.names)
	for _, c := range on {
		for _, e := range c.names {
			if e.dir == n && c.created == "" {
				e.apply(names)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) { // in an order, so that a seed gives the same image
		if err := d.save(im, filepath.Join(path, name), names[name], left, on); err != nil {
			return err
		}
	}
	return nil
}

// left returns what is left of a file when the changes on are on disk.
func (d *disk) left(n *node, on []*change, l loss, rng *rand.Rand) (stored, error) {
	now, err := n.read()
	if err != nil || n.direct || l == allKept {
		return now, err
	}
	was, cuts := n.durable, 0
	size := was.size
	for _, c := range d.changes {
		if c.cut == n {
			cuts++
		}
	}
	for _, c := range on {
		if c.cut == n {
			size = c.size
			cuts--
		}
	}
	if cuts > 0 { // what the file holds now it holds after a cut that is lost
		now = was
	} else if size == was.size && l != allLost && rng.IntN(2) == 0 {
		size = now.size
	}
	out := stored{make([]byte, max(len(was.data), len(now.data))), size}
	copy(out.data, was.data)
	if l != allLost {
		out.mix(now.data, l, rng)
	}
	out.data = out.data[:min(int64(len(out.data)), size)]
	return out, nil
}

// mix overwrites a part of the pages that differ from now.
func (c stored) mix(now []byte, l loss, rng *rand.Rand) {
	const sector = 512
	unit := pageSize
	if l != pagesLost {
		unit = sector
	}
	var differ []int
	for at := 0; at < len(c.data); at += unit {
		end := min(at+unit, len(c.data))
		if !bytes.Equal(c.data[at:end], padded(now, at, end)) {
			differ = append(differ, at)
		}
	}
	keep := rng.IntN(len(differ) + 1)
	for i, at := range differ {
		if l == torn && i < keep || l != torn && rng.IntN(2) == 0 {
			end := min(at+unit, len(c.data))
			copy(c.data[at:end], padded(now, at, end))
		}
	}
}

// padded returns b[from:to] of bytes that are followed by zeros.
func padded(b []byte, from, to int) []byte {
	out := make([]byte, to-from)
	if from < len(b) {
		copy(out, b[from:])
	}
	return out
}

func (im *image) writeTo(dir string) error {
	for _, d := range im.dirs {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return err
		}
	}
	return im.files.writeTo(dir)
}
