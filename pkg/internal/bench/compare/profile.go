package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// profileSpan is the duration of CPU profiles in seconds. A profile has only what happened within it.
const profileSpan = "15"

// profiled runs work, and writes profiles of the server's CPU time, its heap and its allocations into a directory; "": only runs
// work. Profiles are those of minikctl, or of kube-apiserver.
func profiled(ctx context.Context, client kubernetes.Interface, dir, name string, work func() error) error {
	if dir == "" {
		return work()
	}
	write := func(profile string, params ...string) error {
		req := client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/" + profile)
		for _, p := range params {
			key, value, _ := strings.Cut(p, "=")
			req.Param(key, value)
		}
		data, err := req.DoRaw(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+"."+profile), data, 0o600)
	}
	cpu := make(chan error, 1)
	go func() { cpu <- write("profile", "seconds="+profileSpan) }()
	err := work()
	return errors.Join(err, <-cpu, write("allocs"), write("heap", "gc=1"))
}
