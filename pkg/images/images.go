// Package images owns the resolution of a container's image on this machine. An image is built in, or the config maps its
// name to a built-in image, a directory or a program, or the name is itself a directory's (dir:/srv/site), or the container has a command, which
// then runs as a program of the host. Images are never pulled.
package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Prefix starts the names of the built-in images. The name of a built-in image is also the first word of its command, and so
// the program that a runtime starts.
const Prefix = "minikctl.dev/"

// builtin are the built-in images, by the rest of their names after Prefix.
var builtin = []string{"pause", "web"}

// DirPrefix starts an image name that is the path of a directory: dir:/srv/site.
const DirPrefix = "dir:"

// DirVariable is the environment variable that names the directory whose files minikctl.dev/web serves.
const DirVariable = "MINIKCTL_FOLDER"

// Image is a resolved image.
type Image struct {
	ID         string   // identifies the content, like a digest
	Root       string   // a directory with its files; "": the host's own
	Entrypoint []string // the program and its first arguments
	Cmd        []string // the arguments that a pod's own replace
	Env        []string // NAME=value
	Dir        string   // working directory
	User       string   // USER, USER:GROUP, UID or UID:GID; "": the daemon's

	// Program is the path of the image's own program, as a container's command names it, if this machine does not have it: the entrypoint runs
	// in its place. "": the command runs as it is.
	Program string

	// Reason and Note are for an Event if the image is not the one that the name suggests.
	Reason, Note string
}

// Source is the target of an entry in the config's images map: a built-in image, a directory with an image's files, or a program of the host,
// which may have a directory. The other fields are those of an image's config.
type Source struct {
	Image      string
	Root       string
	Entrypoint []string
	Args       []string
	Env        []string // NAME=value
	Dir        string
	User       string
}

// Config configures a Store.
type Config struct {
	Map map[string]Source // by image name, with or without a tag
	// NoHostCommands refuses containers with an unknown image that give a command of the host.
	NoHostCommands bool
}

// The errors of Resolve.
var (
	ErrInvalidName = errors.New("invalid image name")
	ErrNotFound    = errors.New("image not found")
	ErrNoFiles     = errors.New("image has no files of its own")
)

// Store resolves images. It is safe for concurrent use.
type Store struct {
	config Config
	ids    map[string]string // of the built-in images, by name
}

// New returns a store for a config. It returns an error if the config is invalid.
func New(cfg Config) (*Store, error) {
	s := &Store{config: cfg, ids: map[string]string{}}
	for _, name := range builtin {
		s.ids[Prefix+name] = digest("builtin", name)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Map)) {
		if err := s.check(name, cfg.Map[name]); err != nil {
			return nil, fmt.Errorf("images: %s: %w", name, err)
		}
	}
	return s, nil
}

func (s *Store) check(name string, src Source) error {
	if _, err := parse(name); err != nil {
		return err
	}
	switch {
	case src.Image == "" && src.Root == "" && len(src.Entrypoint) == 0:
		return errors.New("one of image, dir and entrypoint is needed")
	case src.Image != "" && (src.Root != "" || len(src.Entrypoint) > 0):
		return errors.New("image: may not be given with dir or entrypoint")
	case src.Image != "" && s.ids[src.Image] == "":
		return fmt.Errorf("image: %q is not one of the built-in images [%s]", src.Image, strings.Join(s.builtins(), " "))
	case len(src.Entrypoint) > 0 && src.Entrypoint[0] == "":
		return errors.New("entrypoint[0]: the program is needed")
	}
	for _, e := range src.Env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("env: %q is not the name of a variable", name)
		}
	}
	if _, err := ParseUser(src.User); err != nil {
		return fmt.Errorf("user: %w", err)
	}
	for _, f := range []struct{ field, path string }{{"dir", src.Root}, {"workingDir", src.Dir}} {
		if err := checkDir(f.path); f.path != "" && err != nil {
			return fmt.Errorf("%s: %w", f.field, err)
		}
	}
	return nil
}

func checkDir(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	return err
}

func (s *Store) builtins() []string { return slices.Sorted(maps.Keys(s.ids)) }

// List returns the names of all built-in and mapped images.
func (s *Store) List() []string {
	names := s.builtins()
	for name := range s.config.Map {
		if s.ids[name] == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Resolve returns the image called name for a container with command, which may be empty. The error is an ErrInvalidName or
// an ErrNotFound, and suggests what to do.
func (s *Store) Resolve(name string, command []string) (Image, error) {
	if path, ok := strings.CutPrefix(name, DirPrefix); ok {
		return s.dir(name, path)
	}
	ref, err := parse(name)
	if err != nil {
		return Image{}, err
	}
	if src, from, ok := s.mapped(name, ref); ok {
		img, what := s.source(src)
		if len(src.Entrypoint) > 0 && isProgramOf(ref, src, command) {
			img.Program = command[0]
			what += ", as is its program " + img.Program + ","
		}
		img.Reason, img.Note = "ImageMapped", fmt.Sprintf("Image %q is mapped to %s by the entry %q of the config's images map", name, what, from)
		return img, nil
	}
	if id := s.ids[ref.Name()]; id != "" && (tag(ref) == "" || tag(ref) == "latest") && !hasDigest(ref) {
		return Image{ID: id, Entrypoint: []string{ref.Name()}}, nil
	}
	if len(command) > 0 && !s.config.NoHostCommands {
		return Image{
			ID: digest("host", name), Reason: "HostCommand",
			Note: fmt.Sprintf("Image %q is not available; the command runs as the program %q of this machine", name, command[0]),
		}, nil
	}
	return Image{}, s.notFound(name, ref, len(command) > 0)
}

// Files returns the image called name for a volume that shows the image's files, which are below Image.Root. The error is an ErrInvalidName,
// an ErrNotFound or an ErrNoFiles, and suggests what to do.
func (s *Store) Files(name string) (Image, error) {
	img, err := s.Resolve(name, nil)
	if err == nil && img.Root != "" || err != nil && !errors.Is(err, ErrNotFound) || strings.HasPrefix(name, DirPrefix) {
		return img, err
	}
	ref, invalid := parse(name)
	if invalid != nil {
		return Image{}, invalid
	}
	advice := fmt.Sprintf("map it to a directory, e.g. \"images: {%s: {dir: /path}}\"", reference.FamiliarName(ref))
	if err == nil {
		return Image{}, fmt.Errorf("%w: %q runs a program of this machine; %s", ErrNoFiles, name, advice)
	}
	return Image{}, fmt.Errorf("%w: %q is not in the config's images map, and minikctl does not pull from registries; %s", ErrNotFound, name, advice)
}

// isProgramOf reports whether a container's command begins with the path of the program of a mapped image. Images have it under the name of
// the image, or that of the program that the image is mapped to, such as /agnhost or /usr/local/bin/redis-server.
func isProgramOf(ref reference.Named, src Source, command []string) bool {
	if len(command) == 0 || !path.IsAbs(command[0]) || src.Root != "" {
		return false
	}
	if name := path.Base(command[0]); name != path.Base(ref.Name()) && name != path.Base(src.Entrypoint[0]) {
		return false
	}
	_, err := os.Stat(command[0])
	return errors.Is(err, fs.ErrNotExist)
}

func (s *Store) notFound(name string, ref reference.Named, command bool) error {
	const start = "%w: %q is not built in and not in the config's images map, and minikctl does not pull from registries; " +
		"map it, e.g. \"images: {%s: minikctl.dev/web}\""
	rest := ", or give the container a command of the host"
	if command {
		rest = "; the config does not allow the host's commands (hostCommands: false)"
	}
	return fmt.Errorf(start+rest, ErrNotFound, name, reference.FamiliarName(ref))
}

// mapped finds the entry of the images map for an image: first by its exact name, then by repository and tag, then by
// repository alone. Short names equal their full form. It also returns the name of the entry.
func (s *Store) mapped(name string, ref reference.Named) (Source, string, bool) {
	if src, ok := s.config.Map[name]; ok {
		return src, name, true
	}
	best, found := "", false
	for _, key := range slices.Sorted(maps.Keys(s.config.Map)) {
		other, err := parse(key)
		if err != nil || other.Name() != ref.Name() || hasDigest(other) {
			continue
		}
		switch {
		case tag(other) != "" && tag(other) == tag(ref):
			return s.config.Map[key], key, true
		case tag(other) == "" && !found:
			best, found = key, true
		}
	}
	return s.config.Map[best], best, found
}

// dir returns the image whose name gives a directory.
func (s *Store) dir(name, path string) (Image, error) {
	switch err := checkDir(path); {
	case !filepath.IsAbs(path):
		return Image{}, fmt.Errorf("%w: couldn't parse image name %q: the directory after dir: is not an absolute path", ErrInvalidName, name)
	case s.config.NoHostCommands:
		return Image{}, fmt.Errorf("%w: the config does not allow %q (hostCommands: false)", ErrNotFound, name)
	case err != nil:
		return Image{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	img, _ := s.source(Source{Root: path})
	return img, nil
}

func (s *Store) source(src Source) (Image, string) {
	img := Image{
		Root: src.Root, Entrypoint: slices.Clone(src.Entrypoint), Cmd: slices.Clone(src.Args), Env: slices.Clone(src.Env), Dir: src.Dir, User: src.User,
	}
	if img.Root != "" {
		img.Root = filepath.Clean(img.Root)
	}
	switch {
	case src.Image != "":
		img.ID, img.Entrypoint = s.ids[src.Image], []string{src.Image}
		return img, src.Image
	case len(src.Entrypoint) > 0:
		img.ID = digest(append([]string{"command", img.Root}, src.Entrypoint...)...)
		return img, "the command " + strings.Join(src.Entrypoint, " ")
	}
	img.ID = digest("directory", src.Root)
	img.Entrypoint = []string{Prefix + "web"}
	img.Env = append(img.Env, DirVariable+"="+img.Root)
	return img, "the directory " + src.Root
}

func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return "minikctl.dev/" + words[0] + "@sha256:" + hex.EncodeToString(sum[:])
}

// parse returns the full reference of an image name, with the default registry and directory of short names.
func parse(name string) (reference.Named, error) {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, fmt.Errorf("%w: couldn't parse image name %q: %w", ErrInvalidName, name, err)
	}
	return ref, nil
}

// tag returns the tag of a reference, or "".
func tag(ref reference.Named) string {
	if t, ok := ref.(reference.Tagged); ok {
		return t.Tag()
	}
	return ""
}

func hasDigest(ref reference.Named) bool {
	_, ok := ref.(reference.Digested)
	return ok
}
