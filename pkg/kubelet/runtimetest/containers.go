package runtimetest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

func itoa(n int) string { return strconv.Itoa(n) }

func restartFindsRunning(f *fixture) {
	p := f.pod()
	spec := f.shell("echo one; while [ ! -e '" + f.root + "/go' ]; do sleep 0.01; done; echo two; exit 7")
	id := f.start(p, spec)
	before, _ := f.find(id)
	f.restart()
	after, ok := f.find(id)
	if !ok || !after.Running || after.PID != before.PID || !after.Started.Equal(before.Started) || after.Image != before.Image {
		f.Fatalf("before %+v, after %+v", before, after)
	}
	if got := f.pods(); len(got) != 1 || got[0].IP != p.IP || !got[0].Started.Equal(p.Started) ||
		got[0].UID != p.UID || got[0].Namespace != p.Namespace || got[0].Name != p.Name {
		f.Errorf("got %+v, want %+v", got, p)
	}
	if q := f.pod(); q.IP != "" && q.IP == p.IP && q.IP != "127.0.0.1" {
		f.Errorf("%s was given out twice", q.IP)
	}
	f.touch("go")
	if c := f.ended(id); c.ExitCode != 7 {
		f.Errorf("got %+v", c)
	}
	if got := texts(f.log(spec)); got != "one\ntwo\n" {
		f.Errorf("log %q", got)
	}
}

func (f *fixture) touch(name string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.root, name), nil, 0o600); err != nil {
		f.Fatal(err)
	}
}

func restartFindsExited(f *fixture) {
	p := f.pod()
	id := f.start(p, f.shell("while [ ! -e '"+f.root+"/go' ]; do sleep 0.01; done; exit 9"))
	before, _ := f.find(id)
	f.close()
	f.touch("go")
	f.wait("the end of the process", func() bool { return !alive(before.PID) })
	f.open()
	if c := f.ended(id); c.ExitCode != 9 || c.Reason != "" || c.Finished.Before(c.Started) {
		f.Errorf("got %+v", c)
	}
}

func exitCodes(f *fixture) {
	p := f.pod()
	for _, c := range []struct {
		script       string
		code, signal int
	}{
		{"exit 0", 0, 0},
		{"exit 3", 3, 0},
		{"kill -KILL $$", 137, 9},
		{"kill -SEGV $$", 139, 11},
		{"kill -PIPE $$", 141, 13}, // a signal that the daemon may ignore
	} {
		got := f.ended(f.start(p, f.shell(c.script)))
		if got.ExitCode != c.code || got.Signal != c.signal || got.Reason != "" || got.PID != 0 {
			f.Errorf("%s: got %+v", c.script, got)
		}
	}
}

func startErrors(f *fixture) {
	p := f.pod()
	plain := filepath.Join(f.root, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		f.Fatal(err)
	}
	garbage := filepath.Join(f.root, "garbage")
	if err := os.WriteFile(garbage, []byte("\x7fELFno"), 0o700); err != nil {
		f.Fatal(err)
	}
	bad := f.command("sleep", "1")
	bad.Dir = "/no/such/directory"
	for _, c := range []struct {
		spec kubelet.ContainerSpec
		want string
	}{
		{f.command("no-such-program"), `exec: "no-such-program": executable file not found in $PATH`},
		{f.command("/no/such/program"), `exec: "/no/such/program": stat /no/such/program: no such file or directory`},
		{f.command(plain), fmt.Sprintf("exec: %q: permission denied", plain)},
		{f.command(garbage), fmt.Sprintf("exec: %q: exec format error", garbage)},
		{f.command("/tmp"), `exec: "/tmp": is a directory`},
		{bad, `chdir to cwd ("/no/such/directory") failed: no such file or directory`},
	} {
		id, err := f.Start(f.ctx, p.UID, c.spec)
		if err == nil || err.Error() != c.want {
			f.Errorf("%v: got %q, %v, want %s", c.spec.Command, id, err, c.want)
		}
	}
	if got := f.pods(); len(got) != 1 || len(got[0].Containers) != 0 {
		f.Errorf("left behind: %+v", got)
	}
}

func stopSendsTerm(f *fixture) {
	p := f.pod()
	spec := f.shell("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	id := f.start(p, spec)
	f.wait("the trap", func() bool { return strings.Contains(f.log(spec), "ready") })
	if err := f.Stop(f.ctx, id, testTimeout); err != nil {
		f.Fatal(err)
	}
	c, _ := f.find(id)
	if c.ExitCode != 5 || c.Signal != 0 || !strings.Contains(f.log(spec), "bye") {
		f.Errorf("got %+v, log %q", c, f.log(spec))
	}
}

// stopToRestart checks that the next driver lists which container was stopped in order to be started again.
func stopToRestart(f *fixture) {
	if _, ok := f.Runtime.(kubelet.Restarter); !ok {
		f.Skip("the runtime is not a Restarter")
	}
	p := f.pod()
	const script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"
	again, once := f.shell(script), f.shell(script)
	restarted, stopped := f.start(p, again), f.start(p, once)
	f.wait("the traps", func() bool { return strings.Contains(f.log(again), "ready") && strings.Contains(f.log(once), "ready") })
	if c, _ := f.find(restarted); c.Restart {
		f.Errorf("before its stop: got %+v", c)
	}
	if err := f.Runtime.(kubelet.Restarter).StopToRestart(f.ctx, restarted, testTimeout); err != nil {
		f.Fatal(err)
	}
	if err := f.Stop(f.ctx, stopped, testTimeout); err != nil {
		f.Fatal(err)
	}
	for range 2 {
		for id, want := range map[kubelet.ContainerID]bool{restarted: true, stopped: false} {
			if c, ok := f.find(id); !ok || c.Running || c.ExitCode != 0 || c.Restart != want {
				f.Errorf("want Restart %t: got %+v", want, c)
			}
		}
		f.restart()
	}
}

func stopKills(f *fixture) {
	p := f.pod()
	spec := f.shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")
	id := f.start(p, spec)
	f.wait("the trap", func() bool { return strings.Contains(f.log(spec), "ready") })
	start := time.Now()
	if err := f.Stop(f.ctx, id, 3*short); err != nil {
		f.Fatal(err)
	}
	if took := time.Since(start); took < 3*short {
		f.Errorf("killed after %s of %s", took, 3*short)
	}
	if c, _ := f.find(id); c.ExitCode != 137 || c.Signal != 9 {
		f.Errorf("got %+v", c)
	}
}

// processTree starts three processes: a child, a child in another process group, and an orphan in another session.
const processTree = `sleep 1000 & echo pid $!
setsid sh -c 'echo pid $$; exec sleep 1000' &
sh -c 'setsid sh -c "sleep 1000 & echo pid \$!" &'
`

func stopKillsDescendants(f *fixture) {
	p := f.pod()
	spec := f.shell(processTree + "wait; sleep 1000")
	id := f.start(p, spec)
	pids := f.pids(spec, 3)
	if err := f.Stop(f.ctx, id, short); err != nil {
		f.Fatal(err)
	}
	f.dead(pids)
}

func exitKillsDescendants(f *fixture) {
	p := f.pod()
	spec := f.shell(processTree + "while [ ! -e '" + f.root + "/go' ]; do sleep 0.01; done; exit 4")
	id := f.start(p, spec)
	pids := f.pids(spec, 3)
	f.touch("go")
	if c := f.ended(id); c.ExitCode != 4 {
		f.Errorf("got %+v", c)
	}
	f.dead(pids)
}

var pidLine = regexp.MustCompile(`F pid (\d+)\n`)

func (f *fixture) pids(spec kubelet.ContainerSpec, n int) []int {
	f.Helper()
	var pids []int
	f.wait("the family", func() bool {
		pids = nil
		for _, m := range pidLine.FindAllStringSubmatch(f.log(spec), -1) {
			pid, _ := strconv.Atoi(m[1])
			pids = append(pids, pid)
		}
		return len(pids) == n
	})
	return pids
}

func (f *fixture) dead(pids []int) {
	f.Helper()
	for _, pid := range pids {
		if alive(pid) {
			f.Errorf("process %d is left", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func environment(f *fixture) {
	p := f.pod()
	dir := f.TempDir()
	spec := f.shell(`echo "$A|$B"; pwd -P; umask; cat; echo "$0 $1"`)
	spec.Command = append(spec.Command, "zero", "with space")
	spec.Env = append(spec.Env, "A=1", "B=x y=z")
	spec.Dir = dir
	f.ended(f.start(p, spec))
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		f.Fatal(err)
	}
	if want, got := "1|x y=z\n"+real+"\n0022\nzero with space\n", texts(f.log(spec)); got != want {
		f.Errorf("got %q, want %q", got, want)
	}
	f.Setenv("OF_THE_DAEMON", "secret")
	env := f.command("env")
	f.ended(f.start(p, env))
	if strings.Contains(f.log(env), "OF_THE_DAEMON") {
		f.Error("the container has the environment of the daemon")
	}
}

func mounts(f *fixture) {
	p := f.pod()
	config := f.TempDir()
	if err := os.WriteFile(filepath.Join(config, "key"), []byte("value\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "run.sh"), []byte("#!/bin/sh\necho ran $1\n"), 0o755); err != nil {
		f.Fatal(err)
	}
	spec := f.shell("cat $MINIKCTL_ROOT/etc/config/key; cat etc/config/key; cat $0")
	spec.Command = append(spec.Command, "$(MINIKCTL_ROOT)/etc/config/key")
	spec.Mounts = []kubelet.Mount{{Host: config, Container: "/etc/config"}}
	f.ended(f.start(p, spec))
	if got := texts(f.log(spec)); got != "value\nvalue\nvalue\n" {
		f.Errorf("got %q", got)
	}
	script := f.command("/etc/config/run.sh", "it")
	script.Mounts = spec.Mounts
	script.Dir = "/etc/config"
	f.ended(f.start(p, script))
	if got := texts(f.log(script)); got != "ran it\n" {
		f.Errorf("got %q", got)
	}
}

var logLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([FP]) (.*)$`)

func logFormat(f *fixture) {
	p := f.pod()
	spec := f.shell(`echo out; echo err >&2; echo; printf 'x%.0s' $(seq 20000); echo; printf end`)
	f.ended(f.start(p, spec))
	var got []string
	for line := range strings.Lines(f.log(spec)) {
		m := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			f.Fatalf("not a log line: %q", line)
		}
		if _, err := time.Parse(time.RFC3339Nano, m[1]); err != nil {
			f.Error(err)
		}
		if m[2] == "stderr" {
			if m[3]+m[4] != "Ferr" {
				f.Errorf("stderr: %q", line)
			}
			continue
		}
		got = append(got, m[3]+" "+itoa(len(m[4]))+" "+m[4][:min(3, len(m[4]))])
	}
	want := []string{"F 3 out", "F 0 ", "P 16384 xxx", "F 3616 xxx", "P 3 end"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Errorf("got %q, want %q", got, want)
	}
}

// bigLog writes a log faster than the runtime copies it.
func bigLog(f *fixture) {
	p := f.pod()
	spec := f.command("seq", "150000")
	if c := f.ended(f.start(p, spec)); c.ExitCode != 0 {
		f.Errorf("got %+v", c)
	}
	var want strings.Builder
	for i := range 150000 {
		fmt.Fprintln(&want, i+1)
	}
	if got := texts(f.log(spec)); got != want.String() {
		f.Errorf("got %d bytes, want %d", len(got), want.Len())
	}
}

// logFlood checks that the logs of a container that writes without end stay bounded, and that another container works meanwhile.
func logFlood(f *fixture) {
	p := f.pod()
	const size, most = 150 << 20, 5 * 10 << 20 // as in Kubernetes, five files of 10 MiB
	line := strings.Repeat("x", 999)
	spec := f.shell(fmt.Sprintf("yes %s | head -c %d; exit 3", line, size))
	flood := f.start(p, spec)
	quiet := f.shell("echo quiet; sleep 1000")
	f.start(p, quiet)
	f.wait("the other container's log", func() bool { return texts(f.log(quiet)) == "quiet\n" })
	if c := f.ended(flood); c.ExitCode != 3 {
		f.Errorf("got %+v", c)
	}
	files, err := filepath.Glob(spec.LogPath + "*")
	if err != nil {
		f.Fatal(err)
	}
	total := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			f.Fatal(err)
		}
		total += info.Size()
	}
	if total > most || total < most/2 {
		f.Errorf("%d files of %d bytes together, want at most %d bytes", len(files), total, most)
	}
	if log := f.log(spec); log != "" {
		if last := log[strings.LastIndexByte(strings.TrimSuffix(log, "\n"), '\n')+1:]; !logLine.MatchString(strings.TrimSuffix(last, "\n")) {
			f.Errorf("the log ends with %q", last)
		}
	}
}

// texts returns the text of a log, without times and streams.
func texts(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if m := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			b.WriteString(m[4])
			if m[3] == "F" {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

func manyAtOnce(f *fixture) {
	p := f.pod()
	const n = 30
	var wg sync.WaitGroup
	for i := range n {
		spec := f.shell("exit " + itoa(i))
		wg.Go(func() {
			id, err := f.Start(f.ctx, p.UID, spec)
			if err != nil {
				f.Error(err)
				return
			}
			if c := f.ended(id); c.ExitCode != i {
				f.Errorf("%d: got %+v", i, c)
			}
		})
	}
	wg.Wait()
}
