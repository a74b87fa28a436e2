package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// payload is the files of a volume, by their path in it.
type payload map[string]file

type file struct {
	data []byte
	mode fs.FileMode
}

const defaultMode = 0o644

func modeOf(common, own *int32) fs.FileMode {
	switch {
	case own != nil:
		return fs.FileMode(*own)
	case common != nil:
		return fs.FileMode(*common)
	}
	return defaultMode
}

// add adds a file to the payload. A path that leads out of the volume is an error.
func (p payload) add(path string, data []byte, mode fs.FileMode) error {
	clean := filepath.Clean(path)
	if path == "" || filepath.IsAbs(path) || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "..") {
		return fmt.Errorf("invalid path %q in a volume", path)
	}
	p[clean] = file{data, mode}
	return nil
}

// pick adds the entries of a config map or secret: all of them, or those that items select, under the paths of items.
func (p payload) pick(data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional *bool, kind string) error {
	if len(items) == 0 {
		for key, value := range data {
			if err := p.add(key, value, modeOf(mode, nil)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("%s references non-existent %s key: %s", "volume", kind, item.Key)
		}
		if err := p.add(item.Path, value, modeOf(mode, item.Mode)); err != nil {
			return err
		}
	}
	return nil
}

func (p payload) equal(o payload) bool {
	if len(p) != len(o) {
		return false
	}
	for path, f := range p {
		g, ok := o[path]
		if !ok || f.mode != g.mode || !bytes.Equal(f.data, g.data) {
			return false
		}
	}
	return true
}

// write replaces the files of a volume. Readers see either all old files or all new ones: the files are in a new directory,
// the link ..data leads to that directory, and the names of the files are links below ..data.
func (v *podVolumes) write(volume string, files payload, own ownership) error {
	if old := v.written[volume]; old != nil && old.equal(files) {
		return nil
	}
	if err := publish(v.directory(volume), files, own); err != nil {
		return err
	}
	put(&v.written, volume, files)
	return nil
}

const (
	dataLink = "..data"
	nextLink = "..data_tmp"
)

func publish(dir string, files payload, own ownership) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := own.applyTo(dir); err != nil {
		return err
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next, err := os.MkdirTemp(dir, "..version_")
	if err != nil {
		return err
	}
	if err := errors.Join(fill(next, files), own.apply(next)); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	if err := point(dir, filepath.Base(next)); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	if err := link(dir, files); err != nil {
		return err
	}
	if old != "" && filepath.Base(old) == old {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// point makes the link to the current version in dir name another one.
func point(dir, version string) error {
	tmp := filepath.Join(dir, nextLink)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(version, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, dataLink))
}

// fill writes the files into a new directory.
func fill(dir string, files payload) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for path, f := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.data, f.mode); err != nil {
			return err
		}
		if err := os.Chmod(full, f.mode); err != nil { // WriteFile applies the umask
			return err
		}
	}
	return nil
}

// link makes a link below ..data for the first element of each path, and removes the links to files that are gone.
func link(dir string, files payload) error {
	want := map[string]bool{}
	for path := range files {
		first, _, _ := strings.Cut(path, "/")
		want[first] = true
	}
	have, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range have {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if want[e.Name()] {
			delete(want, e.Name())
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	for name := range want {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
