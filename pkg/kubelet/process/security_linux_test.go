package process_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
)

// statusLine returns a value of a process's status.
func statusLine(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":\t"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// TestCapabilities: a container has the usual capabilities, as far as the daemon has them, unless its security context changes them.
func TestCapabilities(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has capabilities to give")
	}
	m := newMachine(t)
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	all, err := strconv.ParseUint(statusLine(string(own), "CapPrm"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	const usual, adminTime, netBind = 0xa80425fb, 1<<21 | 1<<25, 1 << 10
	uid := int64(54321)
	for name, c := range map[string]struct {
		spec kubelet.ContainerSpec
		want uint64
	}{
		"none":       {want: usual & all},
		"privileged": {spec: kubelet.ContainerSpec{Security: kubelet.Security{Privileged: true}}, want: all},
		"added": {spec: kubelet.ContainerSpec{Security: kubelet.Security{AddCapabilities: []corev1.Capability{"SYS_ADMIN", "CAP_SYS_TIME"}}},
			want: (usual | adminTime) & all},
		"all but one": {spec: kubelet.ContainerSpec{Security: kubelet.Security{
			AddCapabilities: []corev1.Capability{"all"}, DropCapabilities: []corev1.Capability{"NET_BIND_SERVICE"}}}, want: all &^ netBind},
		"none but one": {spec: kubelet.ContainerSpec{Security: kubelet.Security{
			AddCapabilities: []corev1.Capability{"NET_BIND_SERVICE"}, DropCapabilities: []corev1.Capability{"ALL"}}}, want: netBind & all},
		"another user": {spec: kubelet.ContainerSpec{User: &uid}},
	} {
		c.spec.Command = []string{"/bin/sh", "-c", "cat /proc/self/status"}
		got := statusLine(m.run(c.spec), "CapEff")
		if want := fmt.Sprintf("%016x", c.want); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	spec := kubelet.ContainerSpec{Command: []string{"sleep", "1000"}, Security: kubelet.Security{DropCapabilities: []corev1.Capability{"ALL"}}}
	id := m.start("pod", spec)
	if got := statusLine(m.exec(id, "cat", "/proc/self/status"), "CapBnd"); got != "0000000000000000" {
		t.Errorf("a command in the container has %s", got)
	}
}

// TestNewPrivileges: programs have the privileges of their files, unless the security context forbids it.
func TestNewPrivileges(t *testing.T) {
	m := newMachine(t)
	for _, forbid := range []bool{false, true} {
		got := statusLine(m.run(kubelet.ContainerSpec{
			Command: []string{"cat", "/proc/self/status"}, Security: kubelet.Security{NoNewPrivileges: forbid},
		}), "NoNewPrivs")
		want := "0"
		if forbid || os.Getuid() != 0 && !runtimetest.ShowsMounts(m.rt) { // a filter needs it without CAP_SYS_ADMIN in a namespace
			want = "1"
		}
		if got != want {
			t.Errorf("forbidden: %t: got %s, want %s", forbid, got, want)
		}
	}
}

// TestReadOnlyRoot: a container can write to its writable volumes and to devices, at their paths and below $MINIKCTL_ROOT.
func TestReadOnlyRoot(t *testing.T) {
	m := newMachine(t)
	spec := kubelet.ContainerSpec{
		Security: kubelet.Security{ReadOnlyRoot: true},
		Mounts: []kubelet.Mount{
			{Host: t.TempDir(), Container: "/minikctl-test/data"}, {Host: t.TempDir(), Container: "/minikctl-test/config", ReadOnly: true},
		},
	}
	const script = `cd /
for f in /minikctl-test/data/a $MINIKCTL_ROOT/minikctl-test/data/b /dev/null /minikctl-test/config/c /tmp/minikctl-test /minikctl-test/d \
	$MINIKCTL_ROOT/e; do
	if (echo x >$f) 2>/dev/null; then echo yes; else echo no; fi
done`
	if !runtimetest.ShowsMounts(m.rt) {
		if got := m.rt.Unhonoured(spec); !slices.Contains(got, "the root file system is not read-only") {
			t.Errorf("got %q", got)
		}
		return
	}
	const want = "yes\nyes\nyes\nno\nno\nno\nno\n"
	spec.Command = []string{"/bin/sh", "-c", script}
	if got := m.run(spec); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	spec.Command = []string{"sleep", "1000"}
	id := m.start("pod", spec)
	if got := m.exec(id, "/bin/sh", "-c", script); got != want {
		t.Errorf("a command: got %q, want %q", got, want)
	}
}

// TestMaskedPaths: a container can't change the machine through /proc and /sys, unless its procMount is Unmasked.
func TestMaskedPaths(t *testing.T) {
	m := newMachine(t)
	if !runtimetest.ShowsMounts(m.rt) || os.Getuid() != 0 {
		t.Skip("only root can write there, and only mount namespaces prevent it")
	}
	const script = `[ -w /proc/sys/kernel/hostname ] && echo writable; grep -q . /proc/interrupts && echo shown; ls /sys >/dev/null && echo end`
	for unmasked, want := range map[bool]string{false: "end\n", true: "writable\nshown\nend\n"} {
		got := m.run(kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", script}, Security: kubelet.Security{UnmaskedProc: unmasked}})
		if got != want {
			t.Errorf("unmasked: %t: got %q, want %q", unmasked, got, want)
		}
	}
}

// TestSeccompProfile: RuntimeDefault refuses system calls, and containers without a profile have them.
func TestSeccompProfile(t *testing.T) {
	m := newMachine(t)
	id := m.start("pod", kubelet.ContainerSpec{Command: []string{"sleep", "1000"}, Security: kubelet.Security{Seccomp: corev1.SeccompProfileTypeRuntimeDefault}})
	if got := m.exec(id, "/bin/sh", "-c", "unshare -U true 2>&1; (ls / | wc -l) >/dev/null && echo works"); got != "unshare: unshare failed: Operation not permitted\nworks\n" {
		t.Errorf("got %q", got)
	}
	admin := kubelet.Security{Seccomp: corev1.SeccompProfileTypeRuntimeDefault, AddCapabilities: []corev1.Capability{"SYS_ADMIN"}}
	free := m.run(kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", "unshare -U true 2>&1; true"}})
	if got := m.run(kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", "unshare -U true 2>&1; true"}, Security: admin}); got != free {
		t.Errorf("with SYS_ADMIN: got %q, without a profile %q", got, free)
	}
	if got := m.rt.Unhonoured(kubelet.ContainerSpec{Security: kubelet.Security{Seccomp: corev1.SeccompProfileTypeLocalhost}}); len(got) != 1 {
		t.Errorf("a profile of the node: got %q", got)
	}
}

func TestGroups(t *testing.T) {
	m := newMachine(t)
	uid, gid := int64(54321), int64(54322)
	spec := kubelet.ContainerSpec{Command: []string{"id", "-G"}, Security: kubelet.Security{Groups: []int64{7, 54323}}}
	if os.Getuid() != 0 {
		m.run(spec) // starts without the groups
		return
	}
	spec.User, spec.Group = &uid, &gid
	if got := m.run(spec); got != "54322 7 54323\n" {
		t.Errorf("got %q", got)
	}
	spec.User, spec.Group = nil, nil
	if got := m.run(spec); got != "0 7 54323\n" {
		t.Errorf("without a user: got %q", got)
	}
}

// exec runs a command in a container and returns its output.
func (m *machine) exec(id kubelet.ContainerID, cmd ...string) string {
	m.Helper()
	var out strings.Builder
	if _, err := m.rt.Exec(m.Context(), id, cmd, kubelet.Streams{Out: &out}); err != nil {
		m.Fatal(err)
	}
	return out.String()
}
