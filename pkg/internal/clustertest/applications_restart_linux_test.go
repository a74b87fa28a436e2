package clustertest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// testRestarts replaces the program under running pods, which stay as they are, and then kills every process of the cluster at once, as a
// loss of power does: all pods come back under their names, with one restart more.
func testRestarts(u *tenant) {
	program := filepath.Join(u.dir, "minikctl")
	replaceProgram(u, program)
	u.command = append(u.command[:len(u.command)-1:len(u.command)-1], program)
	u.run("down")
	u.run("up", "-d")
	u.run("apply", "-f", example(u, "rolling-update.yml"), "--wait", "--timeout", "120s")
	before := u.states("{.status.containerStatuses[0].containerID}")

	replaceProgram(u, program)
	u.kill()
	u.run("up", "-d")
	u.eventually("True True True", u.ready)
	if after := u.states("{.status.containerStatuses[0].containerID}"); after != before {
		u.Errorf("after the upgrade the containers are\n%s\nand were\n%s", after, before)
	}
	u.run("exec", "deployment/front", "--", "true") // the supervisor runs the old program
	u.run("scale", "deployment/front", "--replicas", "4")
	u.run("rollout", "status", "deployment/front", "--timeout", "120s")
	u.run("scale", "deployment/front", "--replicas", "3")
	u.eventually("True True True", u.ready)

	before = u.states("")
	u.losePower()
	u.run("up", "-d")
	u.eventually("1 1 1", func() string {
		return u.text("get", "pods", "-l", "app=front", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}")
	})
	u.eventually("True True True", u.ready)
	if after := u.states(""); after != before {
		u.Errorf("after the loss of power the pods are\n%s\nand were\n%s", after, before)
	}
	page := "http://127.0.0.1:" + u.run("get", "service", "front", "-o", "jsonpath={.spec.ports[0].nodePort}") + "/"
	u.eventually("true", func() string { return strconv.FormatBool(strings.HasPrefix(fetch(page), "Hello from pod front-")) })
}

// replaceProgram installs minikctl at path, as an upgrade does: running processes keep the old file.
func replaceProgram(u *tenant, path string) {
	u.Helper()
	copyFile(u.T, u.command[len(u.command)-1], path+".new")
	if err := os.Rename(path+".new", path); err != nil {
		u.Fatal(err)
	}
}

// ready returns the Ready conditions of the pods.
func (u *tenant) ready() string {
	return u.text("get", "pods", "-l", "app=front", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
}

// states returns the UIDs of the pods with a field, sorted.
func (u *tenant) states(field string) string {
	u.Helper()
	lines := strings.Split(u.text("get", "pods", "-l", "app=front", "-o", `jsonpath={range .items[*]}{.metadata.uid} `+field+`{"\n"}{end}`), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// losePower kills the daemon, the supervisor and all containers.
func (u *tenant) losePower() {
	u.Helper()
	h := &home{t: u.T, dir: u.dir}
	var all []int
	for _, p := range processesOf(filepath.Dir(u.dir)) {
		pid, _, _ := strings.Cut(p, " ")
		if number, err := strconv.Atoi(pid); err == nil {
			all = append(all, number)
		}
	}
	for _, path := range globbed("/proc/[0-9]*") {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil && h.owns(pid) && !slices.Contains(all, pid) {
			all = append(all, pid)
		}
	}
	if len(all) < 5 { // the daemon, the supervisor and three pods
		u.Fatalf("the cluster's processes are only %v", all)
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // stopped, so that the daemon restarts no container before its own end
		for _, pid := range all {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				u.Fatal(err)
			}
		}
	}
	u.eventually("0", func() string { return strconv.Itoa(len(processesOf(filepath.Dir(u.dir)))) })
}
