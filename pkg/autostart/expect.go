package autostart

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// Elsewhere are the flags that direct a command to another server than the local daemon.
var Elsewhere = []string{"kubeconfig", "context", "cluster", "user", "server"}

// Name returns the daemon that commands without --name mean.
func Name() string { return cmp.Or(os.Getenv("MINIKCTL_NAME"), DefaultName) }

// Home returns the directory of all daemons of this user: $MINIKCTL_HOME, or .minikctl in the home directory.
func Home() string {
	if home := os.Getenv("MINIKCTL_HOME"); home != "" {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = fmt.Sprintf("%s/minikctl-%d", strings.TrimSuffix(os.TempDir(), "/"), os.Getuid())
	}
	return strings.TrimSuffix(home, "/") + "/.minikctl"
}

// StartsDaemon reports whether the command line args, the first of which is the name of the program, starts a daemon in the
// background if none runs, and returns the name of that daemon. It parses the command line only roughly and may be wrong
// about an unusual one. The command itself parses it completely, and its result decides.
func StartsDaemon(args []string) (name string, ok bool) {
	if len(args) == 0 || strings.TrimSuffix(args[0][strings.LastIndexByte(args[0], '/')+1:], ".exe") == "kubectl" {
		return "", false
	}
	line := read(args[1:])
	name = cmp.Or(line.name, Name())
	switch {
	case line.help || line.elsewhere:
		return "", false
	case line.verb == "up":
		return name, line.detach
	}
	return name, NeedsCluster(line.verb) && Check(Home(), name) == nil
}

// line is what Expect reads of a command line.
type line struct {
	verb, name              string
	detach, help, elsewhere bool
}

func read(args []string) line {
	var l line
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		flag, value, joined := strings.Cut(args[i], "=")
		next := ""
		if !joined && i+1 < len(args) {
			next = args[i+1]
		}
		switch flag {
		case "-h", "--help":
			l.help = true
		case "-d", "--detach":
			l.detach = value != "false"
		case "--name":
			l.name = value + next
		}
		switch {
		case flag == "--name" || flag == "--namespace" || flag == "-n":
			if !joined {
				i++ // the flag's value
			}
		case flag == "-s" || isElsewhere(flag):
			l.elsewhere = true
		case flag[:min(1, len(flag))] != "-" && l.verb == "":
			l.verb = args[i]
		}
	}
	return l
}

func isElsewhere(flag string) bool {
	for _, e := range Elsewhere {
		if flag == "--"+e {
			return true
		}
	}
	return false
}
