// Package program owns the programs of the built-in images that are small enough to be part of minikctl.
package program

import (
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Prefix starts the name of every built-in program, and so its argv[0].
const Prefix = "minikctl.dev/"

var programs = map[string]func(args []string) int{
	"pause": pause,
	"probe": probe,
	"web":   web,
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

// probe succeeds if what it binds to any address is bound to args[0].
func probe(args []string) int {
	if len(args) != 1 {
		return 2
	}
	for range 3 { // somebody may take the port in between
		free, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 1
		}
		_, port, _ := net.SplitHostPort(free.Addr().String())
		free.Close()
		l, err := net.Listen("tcp4", ":"+port)
		if err != nil {
			continue
		}
		defer l.Close()
		if l.Addr().String() == net.JoinHostPort(args[0], port) {
			return 0
		}
		return 1
	}
	return 1
}
