// Package program owns the programs of the built-in images that are small enough to be part of minikctl.
package program

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/trim"
)

// Prefix starts the name of every built-in program, which is also its argv[0].
const Prefix = "minikctl.dev/"

var programs = map[string]func(args []string) int{
	"pause": pause,
	"probe": probe,
	"web":   web,

	"probe-mount": probeMount,
}

// Find returns the built-in program called name, or nil.
func Find(name string) func(args []string) int {
	short, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return nil
	}
	return programs[short]
}

// pause waits for SIGINT or SIGTERM.
func pause([]string) int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	trim.Now()
	<-c
	return 0
}

// probe succeeds if a socket that it binds to the unspecified address ends up bound to args[0].
func probe(args []string) int {
	if len(args) != 1 {
		return 2
	}
	for range 3 { // another process may take the port in between
		free, err := listen(loopback, 0)
		if err != nil {
			return 1
		}
		_, port, _ := strings.Cut(free.address(), ":")
		free.close()
		number, err := strconv.Atoi(port)
		if err != nil {
			return 1
		}
		l, err := listen(anyAddress, number)
		if err != nil {
			continue
		}
		defer l.close()
		if l.address() == args[0]+":"+port {
			return 0
		}
		return 1
	}
	return 1
}

// probeMount succeeds if the directory args[0] exists.
func probeMount(args []string) int {
	if len(args) != 1 {
		return 2
	}
	if _, err := os.Stat(args[0]); err != nil {
		return 1
	}
	return 0
}
