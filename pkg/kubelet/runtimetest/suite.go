// Package runtimetest is the contract of kubelet.Runtime as a suite of tests. A driver's test calls Run, and its TestMain
// calls Main: the suite starts the test program again, as a process to kill and as a container.
package runtimetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// Driver opens runtimes for the suite.
type Driver struct {
	// New opens a runtime over root. The returned function closes it; its pods run on.
	New func(root string) (kubelet.Runtime, func() error, error)
	// Purge ends the pods over root after the last runtime there is closed; nil: none are left.
	Purge func(root string) error
	// Tier describes the runtime. The suite skips the tests that need programs when it is simulated.
	Tier kubelet.Tier
}

// Run runs the suite on a driver.
func Run(t *testing.T, d Driver) {
	for _, c := range []struct {
		name      string
		test      func(*fixture)
		processes bool // the test needs real processes
	}{
		{"FieldsAreListed", fieldsAreListed, false},
		{"PodIsThereUntilStopped", podListedUntilStopped, false},
		{"StartPodTwice", startPodTwice, false},
		{"StopUnknown", stopUnknown, false},
		{"StartWithoutPod", startWithoutPod, false},
		{"ContainerRuns", containerRuns, false},
		{"StopTwice", stopTwice, false},
		{"StopPodEndsContainers", stopPodEndsContainers, false},
		{"RemoveRunning", removeRunning, false},
		{"AddressesDiffer", addressesDiffer, false},
		{"Changed", changed, false},
		{"RestartFindsRunning", restartFindsRunning, true},
		{"KilledDriver", killedDriver, true},
		{"RestartFindsExited", restartFindsExited, true},
		{"ExitCodes", exitCodes, true},
		{"StartErrors", startErrors, true},
		{"StopAsks", stopSendsTerm, true},
		{"StopKills", stopKills, true},
		{"StopToRestart", stopToRestart, true},
		{"StopKillsDescendants", stopKillsDescendants, true},
		{"ExitKillsDescendants", exitKillsDescendants, true},
		{"Environment", environment, true},
		{"Mounts", mounts, true},
		{"MountsAtTheirPaths", mountsAtTheirPaths, true},
		{"LogFormat", logFormat, true},
		{"BigLog", bigLog, true},
		{"LogFlood", logFlood, true},
		{"ManyAtOnce", manyAtOnce, true},
		{"SamePort", samePort, true},
		{"Exec", execRuns, true},
		{"ExecSeesMounts", execSeesMounts, true},
		{"ExecTerminal", execTerminal, true},
		{"ExecEndsWithContext", execEndsWithContext, true},
		{"AttachInput", attachInput, true},
		{"AttachOnce", attachOnce, true},
		{"AttachTerminal", attachTerminal, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.processes && d.Tier.Simulated {
				t.Skip("a simulated runtime runs no programs")
			}
			c.test(newFixture(t, d))
		})
	}
}

// fixture is a runtime with its own directory.
type fixture struct {
	testing.TB
	driver Driver
	root   string
	kubelet.Runtime
	closer func() error
	ctx    context.Context
}

func newFixture(t testing.TB, d Driver) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	f := &fixture{TB: t, driver: d, root: t.TempDir(), ctx: ctx}
	f.open()
	t.Cleanup(func() {
		f.close()
		cancel()
		if d.Purge == nil {
			return
		}
		if err := d.Purge(f.root); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) open() {
	f.Helper()
	var err error
	if f.Runtime, f.closer, err = f.driver.New(f.root); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) close() {
	f.Helper()
	if f.closer == nil {
		return
	}
	if err := f.closer(); err != nil {
		f.Error(err)
	}
	f.closer = nil
}

// restart closes the runtime and opens it again.
func (f *fixture) restart() {
	f.Helper()
	f.close()
	f.open()
}

var serial atomic.Int64

// pod starts a pod with a UID that no other has.
func (f *fixture) pod() kubelet.Pod {
	f.Helper()
	n := serial.Add(1)
	p, err := f.StartPod(f.ctx, kubelet.PodSpec{
		UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)), Namespace: "default", Name: fmt.Sprintf("pod-%d", n),
	})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// shell is a container that runs a script.
func (f *fixture) shell(script string) kubelet.ContainerSpec {
	return f.command("/bin/sh", "-c", script)
}

func (f *fixture) command(argv ...string) kubelet.ContainerSpec {
	n := serial.Add(1)
	return kubelet.ContainerSpec{
		Name: fmt.Sprintf("c%d", n), Command: argv, Env: []string{"PATH=" + os.Getenv("PATH")},
		LogPath: filepath.Join(f.root, "logs", fmt.Sprintf("%d.log", n)),
		Image:   kubelet.Image{Name: "test"},
	}
}

func (f *fixture) start(pod kubelet.Pod, spec kubelet.ContainerSpec) kubelet.ContainerID {
	f.Helper()
	id, err := f.Start(f.ctx, pod.UID, spec)
	if err != nil {
		f.Fatal(err)
	}
	return id
}

// find returns a container, and whether it is there.
func (f *fixture) find(id kubelet.ContainerID) (kubelet.Container, bool) {
	f.Helper()
	pods, err := f.Pods(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range p.Containers {
			if c.ID == id {
				return c, true
			}
		}
	}
	return kubelet.Container{}, false
}

// ended waits for a container's end.
func (f *fixture) ended(id kubelet.ContainerID) kubelet.Container {
	f.Helper()
	var c kubelet.Container
	f.wait("the end of "+string(id), func() bool {
		var ok bool
		c, ok = f.find(id)
		return ok && !c.Running
	})
	return c
}

const (
	testTimeout = time.Minute
	tick        = 2 * time.Millisecond
)

// wait waits for a condition, which it polls.
func (f *fixture) wait(what string, cond func() bool) {
	f.Helper()
	over := time.NewTimer(testTimeout)
	defer over.Stop()
	for !cond() {
		select {
		case <-over.C:
			f.Fatalf("no sign of %s in %s", what, testTimeout)
		case <-time.After(tick):
		}
	}
}

// log reads a container's log, "" when it has none.
func (f *fixture) log(spec kubelet.ContainerSpec) string {
	f.Helper()
	b, err := os.ReadFile(spec.LogPath)
	if err != nil && !os.IsNotExist(err) {
		f.Fatal(err)
	}
	return string(b)
}
