// Package program owns the programs of the built-in images that are small enough to be part of minikctl.
package program

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Prefix starts the name of every built-in program, and so its argv[0].
const Prefix = "minikctl.dev/"

var programs = map[string]func(args []string) int{
	"pause": pause,
}

// Find returns the built-in program of that name, or nil.
func Find(name string) func(args []string) int {
	short, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return nil
	}
	return programs[short]
}

// pause waits to be told to end.
func pause([]string) int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	<-c
	return 0
}
