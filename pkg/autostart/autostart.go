// Package autostart owns the rule for when a command starts the daemon of a cluster that does not run. The verb decides
// whether the command needs a cluster (Needs), the cluster's files decide whether the command may start it (Check).
//
// The rule is applied before other packages initialise, too: this package imports nothing that pkg/early may not import.
package autostart

import (
	"fmt"
	"os"
	"slices"
)

// DefaultName is the name of the cluster that a command creates when it finds none. Other clusters are created by up alone,
// so that a mistyped name creates nothing.
const DefaultName = "minikctl"

// LockFile is the file in a cluster's data directory that its daemon locks. A directory without it is no cluster's.
const LockFile = "daemon.lock"

// verbs are the verbs that start a daemon. The others start and stop it themselves, or work without a cluster.
var verbs = []string{
	"cluster-info", "cordon", "uncordon", "drain", "taint", "top", "certificate",
	"apply", "dev", "run", "create", "expose", "rollout", "scale", "autoscale", "wait",
	"get", "describe", "trace", "why", "service", "clock", "logs", "events", "exec", "attach", "port-forward", "proxy", "cp", "debug", "diff", "explain", "auth",
	"edit", "patch", "replace", "set", "label", "annotate", "delete",
	"api-resources", "api-versions",
}

// NeedsCluster reports whether the command with this verb starts the daemon when none runs.
func NeedsCluster(verb string) bool { return slices.Contains(verbs, verb) }

// Check returns nil if a command may start the daemon of the cluster called name, and otherwise an error with the
// reason and what to do. home is the directory of all clusters.
func Check(home, name string) error {
	up := Up(name)
	if os.Getenv("MINIKCTL_AUTOSTART") == "false" {
		return fmt.Errorf("no daemon %q runs; start it with: %s", name, up)
	}
	if why, failed := FailedUp(home, name); failed {
		return fmt.Errorf("no daemon %q runs, and the last up failed: %s\nstart it with: %s", name, why, up)
	}
	if name == DefaultName {
		return nil
	}
	if !clusterExists(home, name) {
		return fmt.Errorf("there is no cluster %q; create it with: %s", name, up)
	}
	return nil
}

func clusterExists(home, name string) bool {
	_, err := os.Stat(home + "/" + name + "/" + LockFile)
	return err == nil
}

// Up returns the command line that starts the cluster called name.
func Up(name string) string {
	if name == DefaultName {
		return "minikctl up -d"
	}
	return "minikctl up -d --name " + name
}
