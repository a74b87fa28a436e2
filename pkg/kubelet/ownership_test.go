package kubelet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestFSGroup: the files of a volume belong to the pod's fsGroup, which can read them, and write them unless the volume is read-only.
func TestFSGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files to any group")
	}
	group := int64(54321)
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: &group}}}
	shown := func(path string) string {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %v", groupOf(info), info.Mode())
	}
	check := func(path, want string) {
		t.Helper()
		if got := shown(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	dir := t.TempDir()
	config, data := filepath.Join(dir, "config"), filepath.Join(dir, "data")
	if err := publish(config, payload{"sub/key": file{[]byte("x"), 0o400}}, ownershipOf(pod, true)); err != nil {
		t.Fatal(err)
	}
	check(config, "54321 dgrwxr-xr-x")
	check(filepath.Join(config, "..data/sub"), "54321 dgrwxr-xr-x")
	check(filepath.Join(config, "sub/key"), "54321 -r--r-----")

	for path, mode := range map[string]fs.FileMode{data: 0o700, filepath.Join(data, "db"): 0o700} {
		if err := os.MkdirAll(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "db", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ownershipOf(pod, false).applyOnce(data); err != nil {
		t.Fatal(err)
	}
	check(data, "54321 dgrwxrwx---")
	check(filepath.Join(data, "db", "file"), "54321 -rw-rw----")

	group = 54322
	pod.Spec.SecurityContext.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	if err := os.Chown(data, -1, int(group)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o770|fs.ModeSetgid); err != nil { // chown has taken setgid away
		t.Fatal(err)
	}
	for _, policy := range []struct {
		value corev1.PodFSGroupChangePolicy
		want  string
	}{{corev1.FSGroupChangeOnRootMismatch, "54321 -rw-rw----"}, {corev1.FSGroupChangeAlways, "54322 -rw-rw----"}} {
		pod.Spec.SecurityContext.FSGroupChangePolicy = &policy.value
		if err := ownershipOf(pod, false).applyOnce(data); err != nil {
			t.Fatal(err)
		}
		check(filepath.Join(data, "db", "file"), policy.want)
	}
}

// TestSecurityOf: the container's security context goes before the pod's, and the groups are those of both and of the user.
func TestSecurityOf(t *testing.T) {
	group := int64(9)
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{
		SupplementalGroups: []int64{12, 9}, FSGroup: &group, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}}}
	c := &corev1.Container{}
	if got := securityOf(pod, c, nil); fmt.Sprint(got.Groups) != "[9 12]" || got.Seccomp != corev1.SeccompProfileTypeRuntimeDefault || got.NoNewPrivileges || got.Privileged {
		t.Errorf("got %+v", got)
	}
	c.SecurityContext = &corev1.SecurityContext{
		Privileged: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), ProcMount: new(corev1.UnmaskedProcMount),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
		Capabilities:   &corev1.Capabilities{Add: []corev1.Capability{"A"}, Drop: []corev1.Capability{"B"}},
	}
	pod.Spec.SecurityContext.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyStrict)
	got := securityOf(pod, c, new(int64(1)))
	if want := "{true true true true [9 12] [A] [B] }"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
