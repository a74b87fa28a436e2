// Package images owns how a container's image is found on this machine: it is one that is built into the program, or the
// config maps its name to one, to a folder or to a command, or the pod says itself which of the host's programs to run.
// Nothing is fetched from anywhere.
package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Prefix starts the names of the images that are built into the program. Such a name is also the name of the program that
// a runtime starts for it: the first word of the image's command.
const Prefix = "minikctl.dev/"

// builtin are the images built in, by what their names have after Prefix.
var builtin = []string{"pause", "web"}

// Image is what a name stands for.
type Image struct {
	ID         string   // like a digest: another content has another one
	Root       string   // a folder with its files; "": the host's own
	Entrypoint []string // the program and its first arguments
	Cmd        []string // the arguments that a pod's own replace
	Env        []string // NAME=value
	Dir        string   // working directory

	// Reason and Note are for an Event when the name stands for something that its reader would not expect.
	Reason, Note string
}

// Source is what the config maps an image's name to: a built-in image (by its name), a folder that is its root file
// system, or a command of the host.
type Source struct {
	Image   string   `json:"image,omitempty"`
	Folder  string   `json:"folder,omitempty"`
	Command []string `json:"command,omitempty"`
}

// Config is the part of the config that is about images.
type Config struct {
	Map map[string]Source // from an image's name, with or without a tag
	// NoHostCommands keeps pods whose image is not known from running the host's own programs by giving a command.
	NoHostCommands bool
}

// What can be wrong with an image.
var (
	ErrInvalidName = errors.New("invalid image name")
	ErrNotFound    = errors.New("image not found")
)

// Store finds images. It is safe for concurrent use.
type Store struct {
	config Config
	ids    map[string]string // of the built-in ones
}

// New returns a store over a config, which it checks.
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
	if _, err := Parse(name); err != nil {
		return err
	}
	set := 0
	for _, given := range []bool{src.Image != "", src.Folder != "", len(src.Command) > 0} {
		if given {
			set++
		}
	}
	switch {
	case set != 1:
		return errors.New("one of image, folder and command is needed")
	case src.Image != "" && s.ids[src.Image] == "":
		return fmt.Errorf("%q is not one of the built-in images [%s]", src.Image, strings.Join(s.builtins(), " "))
	case src.Folder != "":
		if info, err := os.Stat(src.Folder); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", src.Folder)
		}
	}
	return nil
}

func (s *Store) builtins() []string { return slices.Sorted(maps.Keys(s.ids)) }

// List returns the names of the images there are.
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

// Resolve finds the image of a name for a container that gives this command, which may be empty. Its errors are
// ErrInvalidName and ErrNotFound, with what to do.
func (s *Store) Resolve(name string, command []string) (Image, error) {
	ref, err := Parse(name)
	if err != nil {
		return Image{}, err
	}
	if src, from, ok := s.mapped(name, ref); ok {
		img, what := s.source(src)
		img.Reason, img.Note = "ImageMapped", fmt.Sprintf("Image %q stands for %s: the config's images map says so for %q", name, what, from)
		return img, nil
	}
	if id := s.ids[ref.Repository]; id != "" && (ref.Tag == "" || ref.Tag == "latest") && ref.Digest == "" {
		return Image{ID: id, Entrypoint: []string{ref.Repository}}, nil
	}
	if len(command) > 0 && !s.config.NoHostCommands {
		return Image{
			ID: digest("host", name), Reason: "HostCommand",
			Note: fmt.Sprintf("Image %q is not here; its command runs as the host's own program %q", name, command[0]),
		}, nil
	}
	return Image{}, s.notFound(name, len(command) > 0)
}

func (s *Store) notFound(name string, command bool) error {
	const start = "%w: %q is not built in and not in the config's images map, and minikctl does not pull from registries; " +
		"map it, e.g. \"images: {%s: minikctl.dev/web}\""
	rest := ", or give the container a command of the host"
	if command {
		rest = "; the config does not allow the host's commands (hostCommands: false)"
	}
	return fmt.Errorf(start+rest, ErrNotFound, name, repository(name))
}

// mapped finds what the config says of an image: of the very name first, then of its repository with any tag. Names that
// leave the registry out are the same as those that do not.
func (s *Store) mapped(name string, ref Reference) (Source, string, bool) {
	if src, ok := s.config.Map[name]; ok {
		return src, name, true
	}
	best, found := "", false
	for _, key := range slices.Sorted(maps.Keys(s.config.Map)) {
		other, err := Parse(key)
		if err != nil || other.Full() != ref.Full() || other.Digest != "" {
			continue
		}
		switch {
		case other.Tag != "" && other.Tag == ref.Tag:
			return s.config.Map[key], key, true
		case other.Tag == "" && !found:
			best, found = key, true
		}
	}
	return s.config.Map[best], best, found
}

func (s *Store) source(src Source) (Image, string) {
	switch {
	case src.Image != "":
		return Image{ID: s.ids[src.Image], Entrypoint: []string{src.Image}}, src.Image
	case src.Folder != "":
		return Image{ID: digest("folder", src.Folder), Root: filepath.Clean(src.Folder)}, "the folder " + src.Folder
	}
	return Image{ID: digest(append([]string{"command"}, src.Command...)...), Entrypoint: slices.Clone(src.Command)},
		"the command " + strings.Join(src.Command, " ")
}

func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return "minikctl.dev/" + words[0] + "@sha256:" + hex.EncodeToString(sum[:])
}

// Reference is an image's name in its parts.
type Reference struct {
	Repository string // as it was written
	Tag        string
	Digest     string // with its algorithm: "sha256:…"
}

// expression takes an image's name apart. It is compiled at its first use: programs that start no pods need not wait for it.
var expression = sync.OnceValue(func() *regexp.Regexp {
	const (
		label     = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
		registry  = `(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
		component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
		algorithm = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*`
	)
	return regexp.MustCompile(`^((?:` + registry + `/)?` + component + `(?:/` + component + `)*)` +
		`(?::([\w][\w.-]{0,127}))?(?:@(` + algorithm + `:[0-9a-fA-F]{32,}))?$`)
})

// maxRepository is how long a repository's name may be.
const maxRepository = 255

// Parse takes an image's name apart.
func Parse(name string) (Reference, error) {
	m := expression().FindStringSubmatch(name)
	if m == nil || len(m[1]) > maxRepository {
		reason := "invalid reference format"
		if strings.ToLower(name) != name && expression().MatchString(strings.ToLower(name)) {
			reason += ": repository name must be lowercase"
		}
		return Reference{}, fmt.Errorf("%w: couldn't parse image name %q: %s", ErrInvalidName, name, reason)
	}
	return Reference{Repository: m[1], Tag: m[2], Digest: m[3]}, nil
}

// Full returns the repository with the registry and folder that short names leave out.
func (r Reference) Full() string {
	first, rest, slash := strings.Cut(r.Repository, "/")
	switch {
	case !slash:
		return "docker.io/library/" + r.Repository
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		return "docker.io/" + r.Repository
	case first == "index.docker.io":
		return "docker.io/" + rest
	}
	return r.Repository
}

func repository(name string) string {
	ref, err := Parse(name)
	if err != nil {
		return name
	}
	return ref.Repository
}
