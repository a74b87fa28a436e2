package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/minikctl/minikctl/pkg/autostart"
)

// Paths are the files and directories of a daemon.
type Paths struct {
	Name           string
	Data           string // the directory of all the others, except of a socket whose path would be too long
	Kubeconfig     string // the admin's; exists while the daemon runs
	Socket         string // serves the API to the daemon's user
	State          string // see the type State
	Clock          string // the time of a cluster whose clock is, or was, fast or manual
	Log            string // the output of a daemon in the background
	Store          string
	Backups        string // of the store
	PKI            string
	Runtime        string // pods and their supervisor
	Kubelet        string // volumes and logs of pods
	Memory         string // volumes of pods in memory; "": the machine has no directory for them
	Volumes        string // of claims, made by the cluster's own provisioner
	Traces         string
	DiscoveryCache string
	Shutdown       string // exists while down stops the daemon and its pods
}

// DefaultName returns the name of the daemon that commands use without --name.
func DefaultName() string { return autostart.Name() }

// validName returns the expression of names, which keeps a daemon's data inside Home. It is compiled at the first use. maxName is
// checked separately: with a bound the expression would compile slowly.
var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`) })

const maxName = 63

// CheckName refuses a daemon's name that is not a valid name of a directory.
func CheckName(name string) error {
	if len(name) > maxName || !validName().MatchString(name) {
		return fmt.Errorf("--name: %q is not a name: letters, digits, -, _ and ., at most %d, a letter or digit first", name, maxName)
	}
	return nil
}

// Home is the directory of all daemons of this user: $MINIKCTL_HOME, or .minikctl in the home directory.
func Home() string { return filepath.Clean(autostart.Home()) }

// PathsOf returns the paths of the daemon called name. If its data directory is not in Home, Home has a link to it.
func PathsOf(name string) Paths {
	return PathsIn(name, filepath.Join(Home(), name))
}

// linkHome creates a link in Home to a data directory that is not in Home, so that PathsOf finds it.
func linkHome(p Paths) error {
	before := PathsOf(p.Name)
	if before.Data == p.Data {
		return nil
	}
	if err := makeDir(Home()); err != nil {
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

// makeData creates the data directory if it is missing. It removes the link in Home to a data directory that was removed.
func (p Paths) makeData() error {
	if _, err := os.Stat(p.Data); isLink(p.Data) && errors.Is(err, fs.ErrNotExist) {
		if err := os.Remove(p.Data); err != nil {
			return err
		}
	}
	return makeDir(p.Data)
}

// PathsIn returns the paths of a daemon whose data directory is dir, with links resolved.
func PathsIn(name, dir string) Paths {
	dir = real(dir)
	in := func(file string) string { return filepath.Join(dir, file) }
	return Paths{
		Name: name, Data: dir, Kubeconfig: in("kubeconfig"), Socket: socket(dir), State: in("daemon.json"), Clock: in("clock"), Log: in("daemon.log"),
		Store: in("store"), Backups: in("backups"), PKI: in("pki"), Runtime: in("runtime"), Kubelet: in("kubelet"), Memory: memoryDir(dir), Volumes: in("volumes"), Traces: in("traces"), DiscoveryCache: in("cache"),
		Shutdown: in("shutdown"),
	}
}

// sharedMemory is the directory of Linux whose files are in memory.
const sharedMemory = "/dev/shm"

// memoryDir returns the directory in memory for a data directory.
func memoryDir(data string) string {
	if info, err := os.Stat(sharedMemory); err != nil || !info.IsDir() {
		return ""
	}
	sum := sha256.Sum256([]byte(data))
	return filepath.Join(sharedMemory, fmt.Sprintf("minikctl-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
}

// real resolves the links of a path whose last elements may not exist.
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

// maxSocketPath is the longest path of a unix socket that all kernels accept, less room for a suffix.
const maxSocketPath = 90

// socket returns the path of the API's socket: in the data directory, or if that path is too long, in a directory of this user in
// /tmp. It ignores TMPDIR, which may differ between the daemon and its clients.
func socket(data string) string {
	if path := filepath.Join(data, "run", "api.sock"); len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(data))
	return filepath.Join("/tmp", fmt.Sprintf("minikctl-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])), "api.sock")
}
