package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// validName keeps a daemon's data inside Home. That names have a bound is checked apart: with one the expression is slow to
// compile, which every command would wait for.
var validName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`)

const maxName = 63

// CheckName refuses names of daemons that could not be folders of their own.
func CheckName(name string) error {
	if len(name) > maxName || !validName.MatchString(name) {
		return fmt.Errorf("--name: %q is not a name: letters, digits, -, _ and ., at most %d, a letter or digit first", name, maxName)
	}
	return nil
}

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
	return PathsIn(name, filepath.Join(Home(), name))
}

// linkHome lets commands that know the daemon only by its name find a data folder that is not in Home.
func linkHome(p Paths) error {
	before := PathsOf(p.Name)
	if before.Data == p.Data {
		return nil
	}
	if err := os.MkdirAll(Home(), 0o700); err != nil {
		return err
	}
	link := filepath.Join(Home(), p.Name)
	if isLink(link) && !Alive(before) {
		if err := os.Remove(link); err != nil {
			return err
		}
	}
	if err := os.Symlink(p.Data, link); err != nil {
		return fmt.Errorf("daemon %q has its data elsewhere already: %w", p.Name, err)
	}
	return nil
}

// PathsIn returns the paths of a daemon whose data folder is dir, the same ones whichever links lead there.
func PathsIn(name, dir string) Paths {
	dir = real(dir)
	in := func(file string) string { return filepath.Join(dir, file) }
	return Paths{
		Name: name, Data: dir, Kubeconfig: in("kubeconfig"), Socket: socket(dir), State: in("daemon.json"), Log: in("daemon.log"),
		Store: in("store"), PKI: in("pki"), Runtime: in("runtime"), Kubelet: in("kubelet"), Traces: in("traces"), DiscoveryCache: in("cache"),
	}
}

// real follows the links in a path of which the last parts need not exist.
func real(path string) string {
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		return followed
	}
	parent, last := filepath.Split(filepath.Clean(path))
	if parent == "" || last == "" {
		return path
	}
	return filepath.Join(real(filepath.Clean(parent)), last)
}

// maxSocketPath is what the kernels take for a unix socket's path, with room for a suffix.
const maxSocketPath = 90

// socket returns the path of the API's socket: in its own folder, or where that path would be too long, in a folder of
// this user's in /tmp, which does not depend on TMPDIR: daemon and clients must agree.
func socket(data string) string {
	if path := filepath.Join(data, "run", "api.sock"); len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(data))
	return filepath.Join("/tmp", fmt.Sprintf("minikctl-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])), "api.sock")
}
