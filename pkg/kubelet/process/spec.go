package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// defaultPath is for images that have files of their own, as every container runtime has it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// spec says to the supervisor what spec says to the runtime.
func (h *Host) spec(p *pod, spec *kubelet.ContainerSpec) (*wire.Spec, error) {
	meta, err := json.Marshal(note{spec.Name, spec.Attempt, spec.Image})
	if err != nil {
		return nil, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	id := fmt.Sprintf("%s_%s_%d", p.UID, spec.Name, spec.Attempt)
	ws := &wire.Spec{
		ID: id, Pod: string(p.UID), Folder: filepath.Join(h.root, wire.Containers, id),
		LogPath: spec.LogPath, UID: spec.User, GID: spec.Group, Memory: spec.Limits.Memory, Meta: meta,
		Stdin: spec.Stdin, StdinOnce: spec.StdinOnce, TTY: spec.TTY,
	}
	if p.IP != "127.0.0.1" {
		ws.Address = p.IP
	}
	ws.Links = links(spec.Mounts)
	ws.Env = environment(spec, ws.Root())
	ws.Argv = expandAll(spec.Command, ws.Root())
	if len(ws.Argv) > 0 {
		ws.Argv[0] = inside(spec, ws.Argv[0])
	}
	ws.Dir = directory(spec, ws.Root())
	return ws, nil
}

// links are what is shown below the container's root. A mount within another is left out: its link would have to be made
// in the other's volume.
func links(mounts []kubelet.Mount) []wire.Link {
	var all []wire.Link
	for _, m := range mounts {
		if outer(mounts, m) == "" {
			all = append(all, wire.Link{Path: filepath.Clean("/" + m.Container), Host: m.Host})
		}
	}
	return all
}

// hidden lists the mounts that are left out.
func hidden(mounts []kubelet.Mount) []string {
	var all []string
	for _, m := range mounts {
		if out := outer(mounts, m); out != "" {
			all = append(all, m.Container+" in "+out)
		}
	}
	return all
}

// outer returns the path of a mount that m lies within, or "".
func outer(mounts []kubelet.Mount, m kubelet.Mount) string {
	for _, o := range mounts {
		rest, ok := strings.CutPrefix(filepath.Clean("/"+m.Container), strings.TrimSuffix(filepath.Clean("/"+o.Container), "/"))
		if ok && rest != "" && rest[0] == '/' {
			return o.Container
		}
	}
	return ""
}

// environment is the container's own, with what programs can't do without.
func environment(spec *kubelet.ContainerSpec, root string) []string {
	env := expandAll(spec.Env, root)
	path := defaultPath
	if host := os.Getenv("PATH"); host != "" && spec.Image.Root == "" {
		path = host // its programs are the host's
	}
	term := ""
	if spec.TTY {
		term = "xterm"
	}
	for _, d := range []struct{ name, value string }{{"PATH", path}, {"HOME", root}, {"TERM", term}} {
		if d.value != "" && !has(env, d.name) {
			env = append(env, d.name+"="+d.value)
		}
	}
	return append(env, wire.RootVariable+"="+root)
}

func has(env []string, name string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, name+"=") {
			return true
		}
	}
	return false
}

// expandAll puts the root in place of $(MINIKCTL_ROOT), which the kubelet has left as a reference to no variable.
func expandAll(in []string, root string) []string {
	out := make([]string, len(in), len(in)+3)
	for i, s := range in {
		out[i] = strings.ReplaceAll(s, "$("+wire.RootVariable+")", root)
	}
	return out
}

// directory is where the program starts.
func directory(spec *kubelet.ContainerSpec, root string) string {
	switch {
	case spec.Dir != "":
		return inside(spec, spec.Dir)
	case spec.Image.Root != "":
		return spec.Image.Root
	}
	return root
}

// inside returns where on the host an absolute path of the container is: in a mount, or in the image's files.
func inside(spec *kubelet.ContainerSpec, path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	clean, best, found := filepath.Clean(path), "", ""
	for _, m := range spec.Mounts {
		mount := filepath.Clean(m.Container)
		rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(mount, "/"))
		if ok && (rest == "" || rest[0] == '/') && len(mount) > len(best) {
			best, found = mount, m.Host+rest
		}
	}
	if found != "" {
		return found
	}
	if spec.Image.Root != "" {
		there := filepath.Join(spec.Image.Root, clean)
		if _, err := os.Stat(there); err == nil {
			return there
		}
	}
	return path
}
