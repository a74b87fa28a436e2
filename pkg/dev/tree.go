package dev

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// tree watches directories with their sub-directories, and single files. Hidden files, node_modules, what ignore matches
// and the files that the loop prints to are left out.
type tree struct {
	roots   []string      // absolute
	ignore  []string      // patterns of names
	outputs []os.FileInfo // the files that the loop prints to, which may be among the sources
	watcher *fsnotify.Watcher
}

// stamp is the state of a file; a save changes it.
type stamp struct {
	modified time.Time
	size     int64
}

// snapshot is the state of a tree's files by their paths.
type snapshot map[string]stamp

// openTree returns a tree without the files that outputs are.
func openTree(roots, ignore []string, outputs ...io.Writer) (*tree, error) {
	for _, pattern := range ignore {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("%q: %w", pattern, err)
		}
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	t := &tree{roots: roots, ignore: ignore, watcher: w}
	for _, out := range outputs {
		if f, ok := out.(*os.File); ok {
			if info, err := f.Stat(); err == nil {
				t.outputs = append(t.outputs, info)
			}
		}
	}
	return t, nil
}

func (t *tree) close() { t.watcher.Close() }

// snapshot reads the state of the files, and watches directories that are new. Files that vanish meanwhile are left out.
func (t *tree) snapshot() (snapshot, error) {
	out := snapshot{}
	for _, root := range t.roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && path != root:
				return nil
			case err != nil:
				return err
			case d.IsDir() && path != root && t.leftOut(d.Name()):
				return filepath.SkipDir
			case d.IsDir():
				return t.watcher.Add(path)
			case path == root: // a file is watched by its directory, since editors replace it
				if err := t.watcher.Add(filepath.Dir(path)); err != nil {
					return err
				}
			case t.leftOut(d.Name()):
				return nil
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !t.isOutput(info) {
				out[path] = stamp{info.ModTime(), info.Size()}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// isOutput compares files, not paths: the file may have several, and the loop knows none of them.
func (t *tree) isOutput(info os.FileInfo) bool {
	return slices.ContainsFunc(t.outputs, func(out os.FileInfo) bool { return os.SameFile(out, info) })
}

func (t *tree) leftOut(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules" || slices.ContainsFunc(t.ignore, func(pattern string) bool {
		matches, _ := filepath.Match(pattern, name) // openTree has checked it
		return matches
	})
}

// since returns the files that differ from an earlier snapshot, in order.
func (s snapshot) since(earlier snapshot) []string {
	var out []string
	for path, now := range s {
		if was, ok := earlier[path]; !ok || was != now {
			out = append(out, path)
		}
	}
	for path := range earlier {
		if _, ok := s[path]; !ok {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}
