package badger_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

var damages = flag.Int("damages", 0, "how many variants of each damage are tried; 0: a part of the damages, once")

// content is everything that a reader of a store can see at its head.
type content map[string]store.Entry

func contentOf(t *testing.T, s store.Store) content {
	t.Helper()
	page, err := s.List(t.Context(), "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := content{}
	for _, e := range page.Entries {
		c[e.Key] = e
	}
	return c
}

func (c content) equal(other content) bool {
	return maps.EqualFunc(c, other, func(a, b store.Entry) bool {
		return a.Modified == b.Modified && a.Created == b.Created && bytes.Equal(a.Value, b.Value)
	})
}

// template is a store as a clean end or a kill has left it: its files, and what was in it.
type template struct {
	name  string
	files files
	want  content
	head  store.Revision
}

// files are the files of a store by their paths in its directory, but for the lock and the ballast.
type files map[string]file

// file is a file without the zeros at its end, which logs have many of.
type file struct {
	written string
	size    int64
}

// readFiles reads the files of a store.
func readFiles(t *testing.T, dir string) files {
	t.Helper()
	out := files{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" || d.Name() == "ballast" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // compacted away
		}
		out[rel] = file{string(bytes.TrimRight(b, "\x00")), int64(len(b))}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readOpen reads the files of a store that is open. Badger compacts in the background, so it reads until two times give the same.
func readOpen(t *testing.T, dir string) files {
	t.Helper()
	for {
		if first, second := readFiles(t, dir), readFiles(t, dir); maps.Equal(first, second) {
			return first
		}
	}
}

func (f files) writeTo(dir string) error {
	for path, file := range f {
		path = filepath.Join(dir, path)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(file.written), 0o600), os.Truncate(path, file.size))
		if err != nil {
			return err
		}
	}
	return nil
}

// put writes n objects of this size with names from a prefix.
func put(t *testing.T, s store.Store, prefix string, n, size int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	for at := 0; at < n; {
		var ops []store.Op
		for ; at < n && len(ops) < 200; at++ {
			v := make([]byte, size)
			for i := range v {
				v[i] = byte(rng.Uint32())
			}
			ops = append(ops, store.Op{Key: fmt.Sprintf("%s/%05d", prefix, at), Value: v})
		}
		if _, err := s.Write(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
}

// deleteSome deletes every third object of a prefix.
func deleteSome(t *testing.T, s store.Store, prefix string, n int) {
	t.Helper()
	for i := 0; i < n; i += 3 {
		if _, err := s.Write(t.Context(), store.Op{Key: fmt.Sprintf("%s/%05d", prefix, i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// cleanStore was opened and closed several times: each time a table was written.
func cleanStore(t *testing.T) template {
	dir := filepath.Join(t.TempDir(), "store")
	for i := range 3 {
		s := open(t, dir)
		put(t, s, fmt.Sprint("round", i), 20, 300)
		deleteSome(t, s, fmt.Sprint("round", i), 20)
		put(t, s, "same", 5, 200+i)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return finish(t, "clean", readFiles(t, dir))
}

// killedStore has a table, and changes after it in a log alone.
func killedStore(t *testing.T) template {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	put(t, s, "old", 3, 300)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	put(t, s, "new", 1, 300)
	put(t, s, "old", 2, 100)
	t.Cleanup(func() { s.Close() })
	return finish(t, "killed", readOpen(t, dir))
}

// largeStore has tables on several levels and a value in the value log.
func largeStore(t *testing.T) template {
	dir := filepath.Join(t.TempDir(), "store")
	for i := range 8 {
		s := open(t, dir)
		put(t, s, fmt.Sprint("round", i%5), 1000, 2000)
		put(t, s, "huge", 1, 1200<<10)
		if i == 5 {
			head, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Compact(t.Context(), head); err != nil {
				t.Fatal(err)
			}
		}
		if i == 7 {
			t.Cleanup(func() { s.Close() })
			return finish(t, "large", readOpen(t, dir))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return template{}
}

// trimmed returns the files with all zeros at their ends cut, as readFiles returns them.
func (f files) trimmed() files {
	out := files{}
	for path, file := range f {
		file.written = strings.TrimRight(file.written, "\x00")
		out[path] = file
	}
	return out
}

// finish opens a copy of the files and notes what is in it.
func finish(t *testing.T, name string, files files) template {
	t.Helper()
	probe := t.TempDir()
	if err := files.writeTo(probe); err != nil {
		t.Fatal(err)
	}
	s := open(t, probe)
	defer s.Close()
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return template{name, files, contentOf(t, s), head}
}

const pageSize = 4096

// damage is one way to damage a file.
type damage struct {
	name string
	do   func(f file, rng *rand.Rand) file
}

// Damages of one file. Those that name a place take another one in each variant.
var (
	fixed = []damage{
		{"empty", func(file, *rand.Rand) file { return file{} }},
		{"cut by one byte", func(f file, _ *rand.Rand) file { return f.cut(f.size - 1) }},
		{"cut in half", func(f file, _ *rand.Rand) file { return f.cut(f.size / 2) }},
		{"last written byte cut", func(f file, _ *rand.Rand) file { return f.cut(int64(len(f.written)) - 1) }},
	}
	placed = []damage{
		{"cut", func(f file, rng *rand.Rand) file { return f.cut(rng.Int64N(int64(len(f.written)) + 1)) }},
		{"extended by zeros", func(f file, rng *rand.Rand) file { return file{f.written, f.size + 1 + rng.Int64N(2*pageSize)} }},
		{"extended", func(f file, rng *rand.Rand) file { return f.over(f.size, randomBytes(rng, 1+rng.IntN(100))) }},
		{"extended after what is written", func(f file, rng *rand.Rand) file {
			return f.over(int64(len(f.written)), randomBytes(rng, 1+rng.IntN(100)))
		}},
		{"flipped", func(f file, rng *rand.Rand) file { return f.flip(rng.IntN(max(1, len(f.written))), rng) }},
		{"flipped near the end", func(f file, rng *rand.Rand) file {
			return f.flip(max(0, len(f.written)-1-rng.IntN(100)), rng)
		}},
		{"page of zeros", func(f file, rng *rand.Rand) file { return f.over(f.page(rng), make([]byte, pageSize)) }},
		{"page of noise", func(f file, rng *rand.Rand) file { return f.over(f.page(rng), randomBytes(rng, pageSize)) }},
	}
)

func (f file) cut(size int64) file {
	size = max(0, size)
	return file{f.written[:min(int64(len(f.written)), size)], size}
}

// over returns the file with b written at an offset.
func (f file) over(at int64, b []byte) file {
	out := make([]byte, max(at+int64(len(b)), int64(len(f.written))))
	copy(out, f.written)
	copy(out[at:], b)
	return file{string(out), max(f.size, int64(len(out)))}
}

func (f file) flip(at int, rng *rand.Rand) file {
	if len(f.written) == 0 {
		return f
	}
	return f.over(int64(at), []byte{f.written[at] ^ 1<<rng.IntN(8)})
}

func (f file) page(rng *rand.Rand) int64 {
	return rng.Int64N(int64(len(f.written))/pageSize+1) * pageSize
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// damaged is a store with one damage.
type damaged struct {
	template
	name  string
	files files
}

// damagesOf returns the store with each damage of each file, with so many variants.
func (t template) damagesOf(variants int) []damaged {
	var out []damaged
	with := func(name string, change func(files)) {
		changed := maps.Clone(t.files)
		change(changed)
		out = append(out, damaged{t, t.name + " store: " + name, changed})
	}
	with("database deleted", func(f files) {
		maps.DeleteFunc(f, func(path string, _ file) bool { return path != "head" })
	})
	with("directory emptied", func(f files) { clear(f) })
	for _, path := range slices.Sorted(maps.Keys(t.files)) {
		f := t.files[path]
		with(path+" deleted", func(to files) { delete(to, path) })
		for _, d := range fixed {
			with(path+" "+d.name, func(to files) { to[path] = d.do(f, nil) })
		}
		for _, d := range placed {
			for i := range variants {
				with(fmt.Sprint(path, " ", d.name, ", variant ", i), func(to files) {
					to[path] = d.do(f, rand.New(rand.NewPCG(uint64(i), uint64(len(path)))))
				})
			}
		}
		for _, other := range slices.Sorted(maps.Keys(t.files)) {
			o := t.files[other]
			if other != path && filepath.Ext(other) == filepath.Ext(path) {
				with(path+" overwritten by "+other, func(to files) { to[path] = o })
				if path < other {
					with(path+" swapped with "+other, func(to files) { to[path], to[other] = o, f })
				}
			}
		}
	}
	return out
}

// TestDamage damages each file of a store in each way. A store either opens with everything that was acknowledged, or is refused
// with all its files untouched.
func TestDamage(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	templates := []template{cleanStore(t), killedStore(t)}
	if *damages > 0 {
		templates = append(templates, largeStore(t))
	}
	var refused, whole atomic.Int64
	var g errgroup.Group
	g.SetLimit(4)
	for _, template := range templates {
		for i, d := range template.damagesOf(max(1, *damages)) {
			if *damages == 0 && i%8 != 0 && !strings.Contains(d.name, "MANIFEST") {
				continue
			}
			g.Go(func() error {
				if openTwice(t, d) {
					whole.Add(1)
				} else {
					refused.Add(1)
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d refused, %d whole", refused.Load(), whole.Load())
}

// inMemory returns a directory in memory where the machine has one: the many stores of this test need not be synced.
func inMemory() string {
	if _, err := os.Stat("/dev/shm"); err == nil && *damages == 0 {
		return "/dev/shm"
	}
	return ""
}

// openTwice opens a damaged store twice: what the first open leaves must be whole, too. It reports whether the store opened.
func openTwice(t *testing.T, d damaged) bool {
	dir, err := os.MkdirTemp(inMemory(), "damage")
	if err != nil {
		t.Error(err)
		return false
	}
	defer os.RemoveAll(dir)
	if err := d.files.writeTo(dir); err != nil {
		t.Error(err)
		return false
	}
	for range 2 {
		s, err := badger.Open(badger.Config{Dir: dir, MustExist: true, ReserveBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s: got error %v, want %v", d.name, err, store.ErrDamaged)
			}
			if !maps.Equal(d.files.trimmed(), readFiles(t, dir)) {
				t.Errorf("%s: the refused open changed the files", d.name)
			}
			return false
		}
		got := contentOf(t, s)
		head, headErr := s.Head(t.Context())
		if err := errors.Join(headErr, s.Close()); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		if !got.equal(d.want) || head < d.head {
			t.Errorf("%s: opened with %d objects at revision %d, want %d at %d", d.name, len(got), head, len(d.want), d.head)
			return true
		}
	}
	return true
}
