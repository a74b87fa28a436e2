package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// shown returns the files of a published directory by path, and none if the directory changes meanwhile.
func shown(dir string) map[string]string {
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		root, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil
		}
		err = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			rel, _ := filepath.Rel(root, path)
			out[filepath.Join(e.Name(), rel)] = string(b)
			return err
		})
		if err != nil {
			return nil
		}
	}
	return out
}

func TestPublish(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	for _, files := range []payload{
		{"a": {[]byte("1"), 0o644}, "sub/b": {[]byte("2"), 0o400}, "sub/c": {[]byte("3"), 0o600}},
		{"a": {[]byte("4"), 0o600}, "other/d": {[]byte("5"), 0o644}},
		{},
	} {
		if err := publish(dir, files, ownership{}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for path, f := range files {
			want[path] = string(f.data)
			info, err := os.Stat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != f.mode {
				t.Errorf("%s: got mode %o, want %o", path, info.Mode().Perm(), f.mode)
			}
		}
		if got := shown(dir); !maps.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if versions, _ := filepath.Glob(filepath.Join(dir, "..version_*")); len(versions) != 1 {
			t.Errorf("got versions %q, want one", versions)
		}
	}
}

func TestPayloadPathsStayInside(t *testing.T) {
	for _, path := range []string{"", "/etc/x", "..", "../x", "a/../../x", "..data"} {
		if err := (payload{}).add(path, nil, 0o644); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
	p := payload{}
	if err := p.add("a/b.txt", nil, 0o644); err != nil || len(p) != 1 {
		t.Errorf("a/b.txt: %v", err)
	}
}

func TestSubPathsStayInside(t *testing.T) {
	outside, volume := t.TempDir(), filepath.Join(t.TempDir(), "v")
	if err := makeSubPath(volume, "a/b"); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"in": "a", "out": outside, "up": "../.."} {
		if err := os.Symlink(to, filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := makeSubPath(volume, "in/c"); err != nil {
		t.Errorf("by a link inside: %v", err)
	}
	for _, sub := range []string{"out", "out/x", "up/x"} {
		if err := makeSubPath(volume, sub); err == nil {
			t.Errorf("%s was taken", sub)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there are %v, %v", left, err)
	}
}

// TestVolumeDirsArePrivate checks that other users cannot list the host's directories, which contain secrets.
func TestVolumeDirsArePrivate(t *testing.T) {
	r := newRig(t)
	for _, dir := range []string{".", podsDir, logsDir} {
		info, err := os.Stat(filepath.Join(r.host.Dir, dir))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o066 != 0 {
			t.Errorf("%s has mode %o", dir, info.Mode().Perm())
		}
	}
}

func TestVolumes(t *testing.T) {
	r := newRig(t)
	cm := r.create(client.Target{Resource: client.ConfigMaps, Namespace: "default"}, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"a": "1", "b": "2"},
	}).(*corev1.ConfigMap)
	pod := r.pod("p", corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Items: []corev1.KeyToPath{{Key: "a", Path: "dir/a"}},
			}}},
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}}},
			{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "me", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}},
			}}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3600))}},
			}}}},
		},
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
			{Name: "cm", MountPath: "/etc/cm"}, {Name: "empty", MountPath: "/tmp/e", SubPath: "x/y"},
		}}},
	})
	r.event("p", "FailedMount", `MountVolume.SetUp failed for volume "secret" : secret "late" not found`)
	r.waitSummary("p", "Pending c:ContainerCreating")
	r.create(client.Target{Resource: client.Secrets, Namespace: "default"}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string][]byte{"k": []byte("v")},
	})
	r.waitSummary("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	directory := filepath.Dir(spec.Mounts[0].Host)
	if got := shown(spec.Mounts[0].Host); got["dir/a"] != "1" || len(got) != 1 || spec.Mounts[0].Container != "/etc/cm" {
		t.Errorf("got %q at %+v", got, spec.Mounts[0])
	}
	if got := spec.Mounts[1]; got.Host != filepath.Join(directory, "empty/x/y") {
		t.Errorf("got %+v", got)
	}
	if got := shown(filepath.Join(directory, "secret")); got["k"] != "v" {
		t.Errorf("secret: got %q", got)
	}
	token := func() string {
		return shown(filepath.Join(directory, "token"))["token/."] + shown(filepath.Join(directory, "token"))["token"]
	}
	first := token()
	if strings.Count(first, ".") != 2 {
		t.Errorf("got token %q", first)
	}

	cm = cm.DeepCopy()
	cm.Data["a"] = "new"
	if _, err := r.api.Update(t.Context(), client.In(client.ConfigMaps, keyOf(cm)), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("the config map's change", func() string {
		if got := shown(filepath.Join(directory, "cm")); got["dir/a"] != "new" {
			return got["dir/a"]
		}
		return ""
	})
	labeled := r.get("p").DeepCopy()
	labeled.Labels = map[string]string{"x": "y"}
	if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(labeled)), labeled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.until("the label", func() string {
		if got := shown(filepath.Join(directory, "me")); !strings.Contains(got["labels"], `x="y"`) {
			return "missing"
		}
		return ""
	})
	r.until("a new token", func() string {
		r.advance(10 * time.Minute)
		if now := token(); now == "" || now == first {
			return "it is the old one"
		}
		return ""
	})
	r.delete("p")
	r.waitSummary("p", "none")
	if _, err := os.Stat(filepath.Join(directory, "..")); !os.IsNotExist(err) {
		t.Errorf("the pod was deleted, and %s is left", directory)
	}
}

// TestVolumeIsUpdatedLater: a change that can't be written when it is made is written later, without another change.
func TestVolumeIsUpdatedLater(t *testing.T) {
	r := newRig(t)
	cm := r.create(client.Target{Resource: client.ConfigMaps, Namespace: "default"}, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"a": "old"},
	}).(*corev1.ConfigMap)
	pod := r.pod("p", corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "cm"},
		}}}},
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "cm", MountPath: "/etc/cm"}}}},
	})
	r.waitSummary("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	directory := spec.Mounts[0].Host
	if err := errors.Join(os.Rename(directory, directory+".aside"), os.WriteFile(directory, nil, 0o600)); err != nil { // while a file is in its place nothing is written
		t.Fatal(err)
	}
	cm = cm.DeepCopy()
	cm.Data["a"] = "new"
	if _, err := r.api.Update(t.Context(), client.In(client.ConfigMaps, keyOf(cm)), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.event("p", "FailedMount", `MountVolume.SetUp failed for volume "cm" : …`)
	if err := errors.Join(os.Remove(directory), os.Rename(directory+".aside", directory)); err != nil {
		t.Fatal(err)
	}
	r.until("the new value", func() string {
		if got := shown(directory)["a"]; got != "new" {
			r.advance(mountRetry)
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
}

func TestMemoryVolume(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "memory")
	r := newRig(t, func(h *HostConfig, _ *Config) { h.Memory = memory })
	pod := r.pod("p", corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
			{Name: "scratch", MountPath: "/scratch"}, {Name: "scratch", MountPath: "/sub", SubPath: "sub"},
		}}},
	})
	r.waitSummary("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	for i, want := range []string{"scratch", "scratch/sub"} {
		if got, err := filepath.EvalSymlinks(spec.Mounts[i].Host); err != nil || got != filepath.Join(memory, string(pod.UID), want) {
			t.Errorf("got %s, %v", got, err)
		}
	}
	r.delete("p")
	r.waitSummary("p", "none")
	if left, err := os.ReadDir(memory); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestVolumesAreRemovedBeforeThePod checks that a pod's files are removed before the pod itself: a kubelet that dies in between
// leaves no files without a pod.
func TestVolumesAreRemovedBeforeThePod(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	logs := filepath.Dir(filepath.Dir(spec.LogPath))
	left := make(chan error, 1)
	r.runtime.mu.Lock()
	r.runtime.stopped = func() {
		_, err := os.Stat(logs)
		left <- err
	}
	r.runtime.mu.Unlock()
	if _, err := r.api.Delete(t.Context(), client.In(client.Pods, keyOf(pod)), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-left:
		if !os.IsNotExist(err) {
			t.Errorf("%s is left (%v) after the runtime has removed the pod", logs, err)
		}
	case <-time.After(testTimeout):
		t.Error("the runtime keeps the pod")
	}
}
