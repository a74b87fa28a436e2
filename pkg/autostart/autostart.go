// Package autostart owns the rule for when a command starts the daemon of a cluster that does not run. The verb decides
// whether the command needs a cluster (Needs), the cluster's files decide whether the command may start it (Check).
//
// The rule is applied before other packages initialise, too: this package imports nothing that pkg/early may not import.
package autostart

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// DefaultName is the name of the cluster that a command creates when it finds none. Other clusters are created by up alone,
// so that a mistyped name creates nothing.
const DefaultName = "minikctl"

// LockFile is the file in a cluster's data folder that its daemon locks. A folder without it is no cluster's.
const LockFile = "daemon.lock"

// verbs are the verbs that start a daemon. The others start and stop it themselves, or work without a cluster.
var verbs = []string{
	"cluster-info", "cordon", "uncordon", "drain", "taint", "top", "certificate",
	"apply", "run", "create", "expose", "rollout", "scale", "autoscale", "wait",
	"get", "describe", "trace", "why", "logs", "events", "exec", "attach", "port-forward", "proxy", "cp", "debug", "diff", "explain", "auth",
	"edit", "patch", "replace", "set", "label", "annotate", "delete",
	"api-resources", "api-versions",
}

// NeedsCluster reports whether the command with this verb starts the daemon when none runs.
func NeedsCluster(verb string) bool { return slices.Contains(verbs, verb) }

// Check returns nil if a command may start the daemon of the cluster called name, and otherwise an error with the
// reason and what to do. home is the folder of all clusters.
func Check(home, name string) error {
	up := Up(name)
	if os.Getenv("MINIKCTL_AUTOSTART") == "false" {
		return fmt.Errorf("no daemon %q runs; start it with: %s", name, up)
	}
	if why, refused := Refused(home, name); refused {
		return fmt.Errorf("no daemon %q runs, and the last up failed: %s\nstart it with: %s", name, why, up)
	}
	if name == DefaultName {
		return nil
	}
	if _, err := os.Stat(home + "/" + name + "/" + LockFile); err != nil {
		return fmt.Errorf("there is no cluster %q; create it with: %s", name, up)
	}
	return nil
}

// Up returns the command line that starts the cluster called name.
func Up(name string) string {
	if name == DefaultName {
		return "minikctl up -d"
	}
	return "minikctl up -d --name " + name
}

// UserFolder returns the folder of the user's files that need not survive a reboot: $XDG_RUNTIME_DIR/minikctl, or else
// minikctl-UID in the folder for temporary files.
func UserFolder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir + "/minikctl"
	}
	return strings.TrimSuffix(os.TempDir(), "/") + "/minikctl-" + strconv.Itoa(os.Getuid())
}

// FailedUpFile returns the file that holds the error of the cluster's last up. It exists until an up succeeds or the machine
// boots, so that no command starts the cluster with other settings than the ones that the user requested. It is not in home,
// because an up that fails creates no home.
func FailedUpFile(home, name string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(home)) // never fails
	return fmt.Sprintf("%s/refused-%016x-%s", UserFolder(), hash.Sum64(), name)
}

// Refused returns the error of the cluster's last up, if that failed.
func Refused(home, name string) (why string, refused bool) {
	path := FailedUpFile(home, name)
	info, err := os.Lstat(path)
	if err != nil {
		return "", false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() {
		return "", false // another user may have created the folder
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err == nil
}
