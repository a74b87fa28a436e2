package runtimetest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// ShowsMounts reports whether containers of a runtime find their mounts at their paths on this machine.
func ShowsMounts(r kubelet.Runtime) bool {
	d, ok := r.(kubelet.Describer)
	if !ok {
		return false
	}
	for _, f := range d.Features() {
		if f.Name == "FileSystems" {
			return f.OK
		}
	}
	return false
}

// volume makes a directory with a file for each pair of a name and its text.
func (f *fixture) volume(files ...string) string {
	f.Helper()
	dir := f.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	return dir
}

// mountsAtTheirPaths mounts volumes where the machine has no directory, in a directory, over a directory, over a file and in another volume.
func mountsAtTheirPaths(f *fixture) {
	if !ShowsMounts(f.Runtime) {
		f.Skip("this machine has no mount namespaces: " + f.featureMessage("FileSystems"))
	}
	const missing = "/minikctl-test-missing"
	data := f.volume("key", "data\n")
	spec := f.shell(`
cat ` + missing + `/deep/key /etc/minikctl-test/key /usr/local/key /etc/hosts
ls /etc/passwd
ls -A /usr/local
echo more >` + missing + `/deep/more && cat ` + missing + `/deep/more
touch /etc/minikctl-test/new 2>/dev/null || echo read-only
cat ` + missing + `/deep/inner/key
echo beside >/run/minikctl-test-beside
cmp -s /etc/hosts /etc/hosts-minikctl-test || echo differ
uname -n
sleep 1000`)
	spec.Mounts = []kubelet.Mount{
		{Host: f.volume("key", "inner\n"), Container: missing + "/deep/inner"},
		{Host: data, Container: missing + "/deep/"},
		{Host: f.volume("key", "config\n"), Container: "/etc/minikctl-test", ReadOnly: true},
		{Host: f.volume("key", "local\n"), Container: "/usr/local"},
		{Host: filepath.Join(f.volume("hosts", "127.0.0.1 pod\n"), "hosts"), Container: "/etc/hosts"},
		{Host: "/etc/hosts", Container: "/etc/hosts-minikctl-test"}, // the machine's, which the mount above hides
		{Host: f.volume("token", "secret\n"), Container: "/var/run/minikctl-test/token"},
	}
	p, err := f.StartPod(f.ctx, kubelet.PodSpec{UID: "a-pod-with-mounts", Namespace: "default", Name: "web-0", Hostname: "web-0"})
	if err != nil {
		f.Fatal(err)
	}
	id := f.start(p, spec)
	const want = "data\nconfig\nlocal\n127.0.0.1 pod\n/etc/passwd\nkey\nmore\nread-only\ninner\ndiffer\nweb-0\n"
	f.wait("the last line", func() bool { return strings.HasSuffix(f.log(spec), "web-0\n") })
	if got := texts(f.log(spec)); got != want {
		f.Errorf("got %q, want %q", got, want)
	}
	check := func(when string) {
		f.exec(f.execer(), id, when, []string{"sh", "-c", "cat " + missing + "/deep/key /run/minikctl-test-beside /run/minikctl-test/token/token; ls /etc/passwd"},
			"data\nbeside\nsecret\n/etc/passwd\n")
	}
	check("exec")
	f.restart()
	check("exec after a restart of the driver")
	for _, path := range []string{missing, "/etc/minikctl-test", "/etc/hosts-minikctl-test", "/run/minikctl-test", "/run/minikctl-test-beside"} {
		if _, err := os.Lstat(path); err == nil {
			f.Errorf("the machine has %s", path)
		}
	}
	if text, err := os.ReadFile(filepath.Join(data, "more")); err != nil || strings.TrimSpace(string(text)) != "more" {
		f.Errorf("the volume has %q, %v", text, err)
	}
}
