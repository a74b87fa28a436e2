package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// defaultPath is the PATH of images that contain files, as in every container runtime.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// spec returns the supervisor's spec of a container of p.
func (h *Host) spec(p *pod, spec *kubelet.ContainerSpec) (*wire.Spec, error) {
	meta, err := json.Marshal(containerMeta{spec.Name, spec.Attempt, spec.Image, spec.Mounts})
	if err != nil {
		return nil, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	id := fmt.Sprintf("%s_%s_%d", p.UID, spec.Name, spec.Attempt)
	ws := &wire.Spec{
		ID: id, Pod: string(p.UID), StateDir: filepath.Join(h.root, wire.Containers, id),
		Node: p.Node, LogPath: spec.LogPath, UID: spec.User, GID: spec.Group, Memory: spec.Limits.Memory, PodMemory: spec.Limits.PodMemory,
		MilliCPU: spec.Limits.MilliCPU, PodPIDs: h.podPIDs, Meta: meta,
		Stdin: spec.Stdin, StdinOnce: spec.StdinOnce, TTY: spec.TTY,
	}
	ws.Security = h.security(&spec.Security)
	if p.IP != "127.0.0.1" {
		ws.Address = p.IP
	}
	ws.Links = links(spec.Mounts)
	if h.hasNamespaces() {
		ws.Mounts = mountsOf(spec)
		if !p.HostNetwork {
			ws.Hostname = p.Hostname
		}
	} else if !h.bestMounts {
		if err := checkHidden(spec); err != nil {
			return nil, err
		}
	}
	ws.Env = environment(spec, ws.Root())
	if r := spec.Resolver; r != nil && len(ws.Mounts) == 0 && ws.Address != "" {
		ws.Resolver = r.Server.String()
		ws.Env = append(ws.Env, resolverVariables(ws.Env, r)...)
	}
	view := newView(ws, spec.Mounts, spec.Image.Root)
	ws.Argv = view.resolve(spec.Command)
	ws.Dir = view.directory(spec.Dir)
	return ws, nil
}

func mountsOf(spec *kubelet.ContainerSpec) []wire.Mount {
	var all []wire.Mount
	for _, m := range slices.Concat(spec.Network, spec.Mounts) {
		all = append(all, wire.Mount{
			Path: filepath.Clean("/" + m.Container), Host: m.Host,
			ReadOnly: m.ReadOnly, Recursive: m.Recursive, Propagation: string(m.Propagation),
		})
	}
	return all
}

// checkHidden returns an error if a mount hides files of the machine: without a mount namespace the container would work with the
// machine's files instead of its volume. A container that names the root of its mounts finds its volume, and built-in programs
// read no files.
func checkHidden(spec *kubelet.ContainerSpec) error {
	if readsNoFiles(spec.Command) || findsVolumes(spec.Command, spec.Env) {
		return nil
	}
	for _, m := range spec.Mounts {
		if m.Container == corev1.TerminationMessagePathDefault || m.Container == kubelet.ServiceAccountPath || filepath.Clean(m.Host) == filepath.Clean(m.Container) {
			continue
		}
		if _, err := os.Lstat(m.Container); err == nil {
			return fmt.Errorf("mount %s: this path has files of the machine, which can't be hidden without a mount namespace; use $%s%s",
				m.Container, wire.RootVariable, m.Container)
		}
	}
	return nil
}

func namesRoot(texts []string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, wire.RootVariable) })
}

// links returns the links to mounts below the container's root. It omits a mount within another one: its link would have to
// be created in the other's volume.
func links(mounts []kubelet.Mount) []wire.Link {
	var all []wire.Link
	for _, m := range mounts {
		if enclosingMount(mounts, m) == "" {
			all = append(all, wire.Link{Path: filepath.Clean("/" + m.Container), Host: m.Host})
		}
	}
	return all
}

// nestedMounts lists the mounts that links omits.
func nestedMounts(mounts []kubelet.Mount) []string {
	var all []string
	for _, m := range mounts {
		if out := enclosingMount(mounts, m); out != "" {
			all = append(all, m.Container+" in "+out)
		}
	}
	return all
}

// enclosingMount returns the path of a mount that m lies within, or "".
func enclosingMount(mounts []kubelet.Mount, m kubelet.Mount) string {
	for _, o := range mounts {
		rest, ok := strings.CutPrefix(filepath.Clean("/"+m.Container), strings.TrimSuffix(filepath.Clean("/"+o.Container), "/"))
		if ok && rest != "" && rest[0] == '/' {
			return o.Container
		}
	}
	return ""
}

// environment returns the container's variables, and defaults of those that programs need.
func environment(spec *kubelet.ContainerSpec, root string) []string {
	env := expandAll(spec.Env, root)
	path := defaultPath
	if host := os.Getenv("PATH"); host != "" && spec.Image.Root == "" {
		path = host // the programs are the host's
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

// resolverVariables returns the variables that replace resolv.conf for the C library of GNU, see resolv.conf(5). Its resolver drops answers
// over UDP from another address than the one it has asked, so it uses TCP.
func resolverVariables(env []string, r *kubelet.Resolver) []string {
	var out []string
	for _, v := range []struct{ name, value string }{
		{"LOCALDOMAIN", strings.Join(r.Searches, " ")},
		{"RES_OPTIONS", strings.Join(append(slices.Clone(r.Options), "use-vc"), " ")},
	} {
		if !has(env, v.name) {
			out = append(out, v.name+"="+v.value)
		}
	}
	return out
}

func has(env []string, name string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, name+"=") {
			return true
		}
	}
	return false
}

// expandAll replaces $(MINIKCTL_ROOT) by root. The kubelet does not expand this reference, because it has no such
// variable.
func expandAll(in []string, root string) []string {
	out := make([]string, len(in), len(in)+3)
	for i, s := range in {
		out[i] = strings.ReplaceAll(s, "$("+wire.RootVariable+")", root)
	}
	return out
}

// fileView maps the paths of a container to paths of the host. The commands of exec requests, probes and hooks use the same
// view as the container's own command.
type fileView struct {
	mounts []kubelet.Mount // that are not at their paths
	image  string          // the directory of the image's files; "": the image has none
	root   string          // the directory that $MINIKCTL_ROOT names
}

// viewOf returns the view that a container was started with.
func viewOf(s *wire.Spec) fileView {
	n := metaOf(s)
	return newView(s, n.Mounts, n.Image.Root)
}

func newView(s *wire.Spec, mounts []kubelet.Mount, image string) fileView {
	if len(s.Mounts) > 0 {
		mounts = nil // they are at their paths
	}
	return fileView{mounts, image, s.Root()}
}

// resolve returns cmd with references to $(MINIKCTL_ROOT) expanded and the path of its program mapped to the host.
func (v fileView) resolve(cmd []string) []string {
	argv := expandAll(cmd, v.root)
	if len(argv) > 0 {
		argv[0] = v.hostPath(argv[0])
	}
	return argv
}

// directory returns the host's path of the working directory dir. Without one, a container starts in the image's directory,
// or in the root of its mounts.
func (v fileView) directory(dir string) string {
	switch {
	case dir != "":
		return v.hostPath(dir)
	case v.image != "":
		return v.image
	}
	return v.root
}

// hostPath maps an absolute path of the container to the innermost mount that contains it, or else to the image's files
// where the file exists there. Other paths are returned unchanged.
func (v fileView) hostPath(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	clean, innermost, mapped := filepath.Clean(path), "", ""
	for _, m := range v.mounts {
		mount := filepath.Clean(m.Container)
		rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(mount, "/"))
		if ok && (rest == "" || rest[0] == '/') && len(mount) > len(innermost) {
			innermost, mapped = mount, m.Host+rest
		}
	}
	if mapped != "" {
		return mapped
	}
	if v.image != "" {
		file := filepath.Join(v.image, clean)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return path
}
