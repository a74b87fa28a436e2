package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestResolvers: programs of each family of resolvers find Services and pods, by full names and by the search path of their pod: as root, as an
// ordinary user, and where creating a namespace fails, so that a container can't have a resolv.conf of its own.
func TestResolvers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("too slow for -short")
	}
	dir := t.TempDir()
	program, launcher := filepath.Join(dir, "minikctl"), filepath.Join(dir, "launcher")
	buildMinikctl(t, program)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"launcher", resolverProgram} {
		linkFile(t, self, filepath.Join(dir, name))
		open(t, filepath.Join(dir, name))
	}
	script := filepath.Join(dir, "resolve.js")
	copyFile(t, "testdata/resolvers/resolve.js", script)
	for _, path := range []string{program, script} {
		open(t, path)
	}
	programs := []resolverFamily{
		{name: "Go", command: []string{filepath.Join(dir, resolverProgram)}, srv: true, confined: true},
		{name: "GNU, getent", command: []string{"sh", "-c", `for n; do getent ahostsv4 "$n" | sed -n "s/^\([0-9.]*\) *STREAM.*/$n \1/p"; done`, "sh"}, confined: true},
		compiled(t, dir, "GNU", []string{"gcc"}, "-lresolv"),
		compiled(t, dir, "musl", []string{"musl-gcc", "-static"}),
		{name: "Node", command: []string{"node", script}, srv: true},
	}
	programs[1].missing = missing("getent")
	programs[2].confined = true
	programs[3].confined = true
	programs[4].missing = missing("node")
	nobody := account(t)
	run := func(u *tenant) {
		u = u.home(u.T, "")
		u.run("apply", "-f", u.copied("testdata/resolvers/services.yaml"), "--wait", "--timeout", "120s")
		for _, p := range programs {
			u.Run(p.name, func(t *testing.T) { p.test(t, u) })
		}
	}
	parallel(t, "as root", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("this user is not root")
		}
		run(&tenant{T: t, command: []string{program}})
	})
	parallel(t, "as an ordinary user", func(t *testing.T) {
		run(&tenant{T: t, command: []string{program}, cred: nobody})
	})
	parallel(t, "without namespaces", func(t *testing.T) {
		run(&tenant{T: t, command: []string{launcher, program}, cred: nobody, confined: true})
	})
}

// resolverFamily is a program that prints addresses by one resolver.
type resolverFamily struct {
	name     string
	command  []string
	missing  error // why it can't run here
	srv      bool  // it looks up SRV records, too
	confined bool  // it finds the cluster's names without a resolv.conf of its own
}

func missing(program string) error {
	_, err := exec.LookPath(program)
	return err
}

// compiled builds the program of a C library.
func compiled(t *testing.T, dir, name string, compiler []string, libraries ...string) resolverFamily {
	f := resolverFamily{name: name, command: []string{filepath.Join(dir, "resolve-"+name)}, srv: true, missing: missing(compiler[0])}
	if f.missing != nil {
		return f
	}
	args := append(append(compiler[1:], "-o", f.command[0], "testdata/resolvers/resolve.c"), libraries...)
	if out, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler[0], args, err, out)
	}
	open(t, f.command[0])
	return f
}

func (f resolverFamily) test(t *testing.T, u *tenant) {
	switch {
	case f.missing != nil:
		t.Skip(f.missing)
	case u.confined && !f.confined:
		t.Skip("without mount namespaces this resolver does not find the cluster's names (docs/pod-fields.md: dnsPolicy)")
	}
	get := func(kind, name, field string) string {
		return strings.TrimSpace(u.run("get", "-n", "shop", kind, name, "-o", "jsonpath={"+field+"}"))
	}
	web := get("service", "web", ".spec.clusterIP")
	peers := []string{get("pod", "peer-0", ".status.podIP"), get("pod", "peer-1", ".status.podIP")}
	var names, want []string
	expect := func(name string, answers ...string) {
		names = append(names, name)
		for _, a := range answers {
			want = append(want, name+" "+a)
		}
	}
	const zone = ".shop.svc.cluster.local"
	for _, suffix := range []string{"", ".shop", ".shop.svc", zone, zone + "."} {
		expect("web"+suffix, web)
		expect("peers"+suffix, peers...)
	}
	expect("peer-1.peers", peers[1])
	expect("peer-0.peers"+zone, peers[0])
	if f.srv {
		expect("_http._tcp.web"+zone, "0 100 80 web"+zone)
		expect("_http._tcp.peers"+zone, "0 100 8080 peer-0.peers"+zone, "0 100 8080 peer-1.peers"+zone)
	}
	slices.Sort(want)
	args := slices.Concat([]string{"exec", "-n", "shop", "client", "--"}, f.command, names)
	own := *u
	own.T = t
	own.eventually(strings.Join(want, "\n"), func() string { // DNS follows the endpoints
		out, err := u.output(args...)
		if err != nil {
			return fmt.Sprintf("%v: %s", err, out)
		}
		var got []string
		for line := range strings.Lines(out) {
			fields := strings.Fields(line)
			if last := len(fields) - 1; last > 1 {
				fields[last] = strings.TrimSuffix(fields[last], ".") // resolvers print targets with and without it
			}
			got = append(got, strings.Join(fields, " "))
		}
		slices.Sort(got)
		return strings.Join(got, "\n")
	})
}

// copied copies a file for the user.
func (u *tenant) copied(path string) string {
	u.Helper()
	to := filepath.Join(u.dir, filepath.Base(path))
	copyFile(u.T, path, to)
	open(u.T, to)
	return to
}
