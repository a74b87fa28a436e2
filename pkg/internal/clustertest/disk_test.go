package clustertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullDisk runs a daemon on a small disk in its own mount namespace: while less than the reserve is free it refuses
// writes and loses no earlier one, and writes work again once there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	h := newHome(t)
	disk := filepath.Join(h.dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	script := `set -eu
mount -t tmpfs -o size=32m tmpfs ` + disk + `
! minikctl up --name small --data-dir ` + disk + `/data 2>small || exit 91
grep -q 'not enough free disk space' small || { cat small; exit 92; }
umount ` + disk + `
mount -t tmpfs -o size=400m tmpfs ` + disk + `
minikctl up -d --name small --data-dir ` + disk + `/data --only apiserver --write-kubeconfig k
minikctl --kubeconfig k create configmap before
free=$(df --output=avail -k ` + disk + ` | tail -1)
dd if=/dev/zero of=` + disk + `/fill bs=1024 count=$((free - 100 * 1024)) 2>/dev/null
! minikctl --kubeconfig k create configmap full 2>refused || exit 93
grep -q 'not enough free disk space' refused || { cat refused; exit 94; }
minikctl --kubeconfig k get configmap before >/dev/null
minikctl --kubeconfig k delete configmap before >/dev/null
rm ` + disk + `/fill
minikctl --kubeconfig k create configmap after
minikctl --kubeconfig k get configmap after >/dev/null
minikctl --name small down --purge
umount ` + disk
	cmd := h.command("unshare", "-m", "sh", "-c", script)
	cmd.Dir = h.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestReadOnlyDir starts a daemon with a read-only data directory.
func TestReadOnlyDir(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	sealed := filepath.Join(h.dir, "sealed")
	if err := os.Mkdir(sealed, 0o555); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("minikctl")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(h.dir, "minikctl")
	linkFile(t, program, copied)
	for dir := h.dir; strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := h.command(copied, "up", "--name", "sealed", "--data-dir", filepath.Join(sealed, "data"))
	temp := filepath.Join(h.dir, "tmp") // for the record of the failed start
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+temp, "XDG_RUNTIME_DIR=")
	if os.Getuid() == 0 {
		if err := os.Chown(temp, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "error: ") || !strings.Contains(string(out), "permission denied") {
		t.Errorf("%v\n%s", err, out)
	}
}

// linkFile gives a program another name, or copies it if that is on another file system.
func linkFile(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) != nil {
		copyFile(t, from, to)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
