package runtimetest

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

func samePort(f *fixture) {
	const port = "18080"
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	for _, listen := range []string{":" + port, "0.0.0.0:" + port, "127.0.0.1:" + port, "[::]:" + port, "localhost:" + port} {
		var pods []kubelet.Pod
		for range 5 {
			p := f.pod()
			if p.IP == "" || p.IP == "127.0.0.1" {
				f.Skipf("pods have no addresses of their own here: %s", f.featureMessage("PodAddresses"))
			}
			spec := f.command(self)
			spec.Env = append(spec.Env, roleVariable+"="+serverRole, argument+"="+listen)
			f.start(p, spec)
			pods = append(pods, p)
		}
		for _, p := range pods {
			want := net.JoinHostPort(p.IP, port)
			f.wait(want, func() bool { return strings.HasPrefix(readFrom(want), want+" ") })
		}
		for _, p := range pods {
			if err := f.StopPod(f.ctx, p.UID); err != nil {
				f.Fatal(err)
			}
		}
	}
}

// readFrom returns what the server at address writes, "" if there is none.
func readFrom(address string) string {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(c)
	return b.String()
}

func (f *fixture) execer() kubelet.Execer {
	f.Helper()
	e, ok := f.Runtime.(kubelet.Execer)
	if !ok {
		f.Skip("the runtime runs no commands")
	}
	return e
}

func execRuns(f *fixture) {
	e := f.execer()
	p := f.pod()
	spec := f.command("sleep", "1000")
	spec.Env = append(spec.Env, "A=of the container")
	id := f.start(p, spec)
	var out, err bytes.Buffer
	code, failed := e.Exec(f.ctx, id, []string{"sh", "-c", `cat; echo "$A"; echo oops >&2; exit 6`},
		kubelet.Streams{In: strings.NewReader("in\n"), Out: &out, Err: &err})
	if failed != nil || code != 6 || out.String() != "in\nof the container\n" || err.String() != "oops\n" {
		f.Errorf("got %d, %v, %q, %q", code, failed, out.String(), err.String())
	}
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	out.Reset()
	code, failed = e.Exec(f.ctx, id, []string{"cat"}, kubelet.Streams{In: strings.NewReader(big), Out: &out})
	if failed != nil || code != 0 || out.String() != big {
		f.Errorf("a megabyte: got %d, %v, %d bytes", code, failed, out.Len())
	}
	if code, failed := e.Exec(f.ctx, id, []string{"sh", "-c", "kill -9 $$"}, kubelet.Streams{}); failed != nil || code != 137 {
		f.Errorf("killed: got %d, %v", code, failed)
	}
	_, failed = e.Exec(f.ctx, id, []string{"no-such-program"}, kubelet.Streams{})
	if want := `exec: "no-such-program": executable file not found in $PATH`; failed == nil || failed.Error() != want {
		f.Errorf("got %v, want %s", failed, want)
	}
	if failed := f.Stop(f.ctx, id, time.Second); failed != nil {
		f.Fatal(failed)
	}
	if _, failed := e.Exec(f.ctx, id, []string{"true"}, kubelet.Streams{}); failed == nil {
		f.Error("a command ran in a container that does not")
	}
}

// execSeesMounts runs commands that name files of the container: in a mount, in the image's directory and by the variable
// that names the root of the mounts.
func execSeesMounts(f *fixture) {
	e := f.execer()
	config, image := f.TempDir(), f.TempDir()
	for path, text := range map[string]string{
		filepath.Join(config, "key"):       "value\n",
		filepath.Join(config, "script.sh"): "#!/bin/sh\necho \"mounted $1\"\n",
		filepath.Join(image, "tool.sh"):    "#!/bin/sh\necho \"image $1\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	spec := f.command("sleep", "1000")
	spec.Mounts = []kubelet.Mount{{Host: config, Container: "/etc/config"}}
	spec.Image.Root = image
	spec.Dir = "/etc/config"
	id := f.start(f.pod(), spec)
	for _, c := range []struct {
		name string
		cmd  []string
		want string
	}{
		{"a program in a mount", []string{"/etc/config/script.sh", "it"}, "mounted it\n"},
		{"a program of the image", []string{"/tool.sh", "it"}, "image it\n"},
		{"the root variable", []string{"cat", "$(MINIKCTL_ROOT)/etc/config/key"}, "value\n"},
		{"the root in the environment", []string{"sh", "-c", "cat $MINIKCTL_ROOT/etc/config/key"}, "value\n"},
		{"the working directory", []string{"cat", "key"}, "value\n"},
	} {
		f.exec(e, id, c.name, c.cmd, c.want)
	}
	f.restart()
	f.exec(f.execer(), id, "after a restart of the driver", []string{"/etc/config/script.sh", "it"}, "mounted it\n")
}

// exec runs cmd in a container and compares what it writes.
func (f *fixture) exec(e kubelet.Execer, id kubelet.ContainerID, name string, cmd []string, want string) {
	f.Helper()
	var out bytes.Buffer
	code, err := e.Exec(f.ctx, id, cmd, kubelet.Streams{Out: &out})
	if err != nil || code != 0 || out.String() != want {
		f.Errorf("%s: got %d, %v, %q, want %q", name, code, err, out.String(), want)
	}
}

func execTerminal(f *fixture) {
	if runtime.GOOS != "linux" {
		f.Skip("terminals are for Linux so far")
	}
	e := f.execer()
	p := f.pod()
	id := f.start(p, f.command("sleep", "1000"))
	sizes := make(chan kubelet.WindowSize, 1)
	sizes <- kubelet.WindowSize{Width: 91, Height: 33}
	in, typed := io.Pipe()
	defer typed.Close()
	go func() { _, _ = io.WriteString(typed, "hello\n") }()
	var out bytes.Buffer
	code, err := e.Exec(f.ctx, id, []string{"sh", "-c", `
		test -t 0 && test -t 1 && test -t 2 && echo terminal $TERM; read line; echo "got $line"
		until [ "$(stty size)" = "33 91" ]; do sleep 0.01; done; echo resized; exit 8`},
		kubelet.Streams{In: in, Out: &out, TTY: true, Resize: sizes})
	if err != nil || code != 8 {
		f.Errorf("got %d, %v", code, err)
	}
	for _, want := range []string{"terminal xterm\r\n", "got hello\r\n", "resized\r\n"} {
		if !strings.Contains(out.String(), want) {
			f.Errorf("%q is missing in %q", want, out.String())
		}
	}
}

// lines sends each write to a channel.
type lines struct{ c chan string }

func (l lines) Write(b []byte) (int, error) {
	l.c <- string(b)
	return len(b), nil
}

func execEndsWithContext(f *fixture) {
	e := f.execer()
	p := f.pod()
	id := f.start(p, f.command("sleep", "1000"))
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	out := lines{make(chan string, 8)}
	failed := make(chan error, 1)
	go func() {
		_, err := e.Exec(ctx, id, []string{"sh", "-c", "echo pid $$; exec sleep 1000"}, kubelet.Streams{Out: out})
		failed <- err
	}()
	m := pidLine.FindStringSubmatch("F " + <-out.c)
	if m == nil {
		f.Fatal("no PID")
	}
	cancel()
	if err := <-failed; err == nil {
		f.Error("no error")
	}
	var pid int
	for _, r := range m[1] {
		pid = pid*10 + int(r-'0')
	}
	f.wait("the end of the command", func() bool { return !alive(pid) })
}
