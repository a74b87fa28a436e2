package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/minikctl/minikctl/pkg/images"
)

// ImageConfig is what runs in place of an image. Its short forms are a string (a built-in image, or a directory with or without dir: in front of
// it) and a list of strings (the entrypoint). One of image, dir and entrypoint is needed; an entrypoint can have a dir, too.
type ImageConfig struct {
	// Image is a built-in image, for example minikctl.dev/web.
	Image string `json:"image,omitempty"`
	// Dir is a directory with the image's files. Without an entrypoint minikctl.dev/web serves them.
	Dir string `json:"dir,omitempty"`
	// Entrypoint is the program and its first arguments. A pod's command replaces it. The program is a path or a name in the PATH.
	Entrypoint []string `json:"entrypoint,omitempty"`
	// Args are the arguments after the entrypoint. A pod's command or args replace them.
	Args []string `json:"args,omitempty"`
	// Env are environment variables. A pod's own are stronger.
	Env map[string]string `json:"env,omitempty"`
	// WorkingDir is the directory in which the program starts. A pod's workingDir replaces it.
	WorkingDir string `json:"workingDir,omitempty"`
	// User is the user of the program, as USER, USER:GROUP, UID or UID:GID of this machine. A pod's runAsUser and runAsGroup replace it. Only
	// root's daemon can change the user. Default: the daemon's.
	User string `json:"user,omitempty"`
}

// UnmarshalJSON reads a string, a list of strings or an object.
func (i *ImageConfig) UnmarshalJSON(b []byte) error {
	type object ImageConfig // without methods
	var err error
	switch b = bytes.TrimSpace(b); {
	case len(b) > 0 && b[0] == '{':
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err = d.Decode((*object)(i)); err != nil {
			return fmt.Errorf("image %s: %s", b, strings.TrimPrefix(err.Error(), "json: "))
		}
		return nil
	case len(b) > 0 && b[0] == '[':
		err = json.Unmarshal(b, &i.Entrypoint)
	default:
		var ref string
		err = json.Unmarshal(b, &ref)
		if strings.HasPrefix(ref, images.Prefix) {
			i.Image = ref
		} else {
			i.Dir = strings.TrimPrefix(ref, images.DirPrefix)
		}
	}
	if err != nil || i.Image == "" && i.Dir == "" && len(i.Entrypoint) == 0 {
		return fmt.Errorf("image %s is neither a string, nor a list of strings, nor an object", b)
	}
	return nil
}

// resolveImages makes relative paths of images absolute. A program without a slash is looked up in the PATH, and one of an image with a directory
// is relative to the directory in which it starts.
func (c *Config) resolveImages(absolute func(path string) string) {
	for name, i := range c.Images {
		if i.Dir != "" {
			i.Dir = absolute(i.Dir)
		}
		if i.WorkingDir != "" {
			i.WorkingDir = absolute(i.WorkingDir)
		}
		if i.Dir == "" && len(i.Entrypoint) > 0 && strings.Contains(i.Entrypoint[0], "/") {
			i.Entrypoint[0] = absolute(i.Entrypoint[0])
		}
		c.Images[name] = i
	}
}

// imageConfig converts the config's images for package images.
func (c *Config) imageConfig() images.Config {
	out := images.Config{Map: map[string]images.Source{}, NoHostCommands: c.HostCommands != nil && !*c.HostCommands}
	for name, i := range c.Images {
		s := images.Source{Image: i.Image, Root: i.Dir, Entrypoint: i.Entrypoint, Args: i.Args, Dir: i.WorkingDir, User: i.User}
		for _, key := range slices.Sorted(maps.Keys(i.Env)) {
			s.Env = append(s.Env, key+"="+i.Env[key])
		}
		out.Map[name] = s
	}
	return out
}

// Images returns the images that a cluster's config maps, as of its last start.
func Images(p Paths) (*images.Store, error) {
	last, err := readSettings(p)
	if err != nil {
		return nil, err
	}
	if last == nil {
		last = &settings{}
	}
	return images.New(last.imageConfig())
}
