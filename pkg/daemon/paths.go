package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Paths says where a daemon keeps its things.
type Paths struct {
	Name           string
	Data           string // the folder of all the others, but for a socket whose path would be too long
	Kubeconfig     string // for the admin, always there while the daemon runs
	Socket         string // the API for the daemon's own user
	State          string // what a running daemon says of itself
	Log            string // the output of a daemon in the background
	Store          string
	PKI            string
	Runtime        string // pods and their supervisor
	Kubelet        string // volumes and logs of pods
	Traces         string
	DiscoveryCache string
}

// DefaultName is the daemon that commands mean when --name is not given.
func DefaultName() string { return cmp.Or(os.Getenv("MINIKCTL_NAME"), "minikctl") }

// Home is the folder of all daemons of this user: $MINIKCTL_HOME, or .minikctl in the home folder.
func Home() string {
	if home := os.Getenv("MINIKCTL_HOME"); home != "" {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = filepath.Join(os.TempDir(), fmt.Sprintf("minikctl-%d", os.Getuid()))
	}
	return filepath.Join(home, ".minikctl")
}

// PathsOf returns the paths of the daemon called name. Where its data is elsewhere, a link in Home leads there.
func PathsOf(name string) Paths {
	dir := filepath.Join(Home(), name)
	if elsewhere, err := filepath.EvalSymlinks(dir); err == nil {
		dir = elsewhere
	}
	return PathsIn(name, dir)
}

// linkHome lets commands that know the daemon only by its name find a data folder that is not in Home.
func linkHome(p Paths) error {
	link := filepath.Join(Home(), p.Name)
	if link == p.Data || PathsOf(p.Name).Data == p.Data {
		return nil
	}
	if err := os.MkdirAll(Home(), 0o700); err != nil {
		return err
	}
	if target, err := os.Readlink(link); err == nil && target != p.Data {
		if err := os.Remove(link); err != nil {
			return err
		}
	}
	if err := os.Symlink(p.Data, link); err != nil {
		return fmt.Errorf("daemon %q has its data elsewhere already: %w", p.Name, err)
	}
	return nil
}

// PathsIn returns the paths of a daemon whose data folder is dir.
func PathsIn(name, dir string) Paths {
	in := func(file string) string { return filepath.Join(dir, file) }
	return Paths{
		Name: name, Data: dir, Kubeconfig: in("kubeconfig"), Socket: socket(in("run"), dir), State: in("daemon.json"), Log: in("daemon.log"),
		Store: in("store"), PKI: in("pki"), Runtime: in("runtime"), Kubelet: in("kubelet"), Traces: in("traces"), DiscoveryCache: in("cache"),
	}
}

// maxSocketPath is what the kernels take for a unix socket's path, with room for a suffix.
const maxSocketPath = 90

// socket returns the path of the API's socket: in its own folder, or where that path would be too long, in a folder of
// this user's in /tmp, which does not depend on TMPDIR: daemon and clients must agree.
func socket(folder, data string) string {
	if path := filepath.Join(folder, "api.sock"); len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(data))
	return filepath.Join("/tmp", fmt.Sprintf("minikctl-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])), "api.sock")
}
