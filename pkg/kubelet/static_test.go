package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

const staticManifest = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: nginx}]
`

func TestParseStaticPod(t *testing.T) {
	pod, err := parseStaticPod([]byte(staticManifest), "/m/web.yaml", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Name != "web-node-1" || pod.Namespace != "default" || pod.Spec.NodeName != "node-1" || pod.Status.Phase != corev1.PodPending {
		t.Errorf("got %s in %s on %s, %s", pod.Name, pod.Namespace, pod.Spec.NodeName, pod.Status.Phase)
	}
	if len(pod.UID) != 32 || pod.Annotations[configHash] != string(pod.UID) || pod.Annotations[configSource] != "file" || isMirror(pod) {
		t.Errorf("UID %s, annotations %v", pod.UID, pod.Annotations)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.Containers[0].TerminationMessagePath == "" {
		t.Errorf("no defaults: %+v", pod.Spec)
	}
	want := corev1.Toleration{Operator: "Exists", Effect: "NoExecute"}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0] != want {
		t.Errorf("tolerations %v", pod.Spec.Tolerations)
	}
	uids := map[types.UID]string{}
	for name, in := range map[string][3]string{
		"the pod": {staticManifest, "/m/web.yaml", "node-1"}, "another file": {staticManifest, "/m/b.yaml", "node-1"},
		"another node": {staticManifest, "/m/web.yaml", "n2"}, "another image": {strings.Replace(staticManifest, "nginx", "nginx:2", 1), "/m/web.yaml", "node-1"},
	} {
		pod, err := parseStaticPod([]byte(in[0]), in[1], in[2])
		if err != nil {
			t.Fatal(err)
		}
		if other := uids[pod.UID]; other != "" {
			t.Errorf("%s and %s have one UID", name, other)
		}
		uids[pod.UID] = name
	}
}

func TestParseStaticPodErrors(t *testing.T) {
	spec := func(fields string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}], " + fields + "}\n"
	}
	for manifest, want := range map[string]string{
		"kind: Pod": `it has a "Pod" of version ""`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}":                   `it has a "ConfigMap"`,
		"apiVersion: v1\nkind: Pod\nspec: {containers: []}":                      "invalid pod: name is needed for the pod",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}": "invalid pod: spec.containers: Required value",
		"{":                           "yaml",
		spec("serviceAccountName: a"): "static pods may not reference serviceaccounts",
		spec("volumes: [{name: v, configMap: {name: a}}]"):                  "static pods may not reference configmaps",
		spec("volumes: [{name: v, persistentVolumeClaim: {claimName: a}}]"): "static pods may not reference persistentvolumeclaims",
		spec("hostNetwork: false, volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]"): "static pods may not reference persistentvolumeclaims (via ephemeral volumes)",
	} {
		if _, err := parseStaticPod([]byte(manifest), "f", "n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", manifest, err, want)
		}
	}
}

func TestReadStaticPods(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", staticManifest)
	write(".b.yaml", staticManifest)
	write("bad.yaml", "kind: Pod")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("sub/c.yaml", staticManifest)
	for path, want := range map[string]int{dir: 1, filepath.Join(dir, "a.yaml"): 1, filepath.Join(dir, "none"): 0} {
		pods, invalid, err := readStaticPods(path, "n1")
		if err != nil || len(pods) != want {
			t.Errorf("%s: got %v, %v", path, pods, err)
		}
		if bad := path == dir; bad != (len(invalid) == 1) {
			t.Errorf("%s: invalid %v", path, invalid)
		}
	}
}

// staticRig is a rig with a directory of static pods.
func staticRig(t *testing.T) (*rig, func(string)) {
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yaml")
	write := func(content string) {
		t.Helper()
		if content == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(staticManifest)
	return newRig(t, func(_ *HostConfig, c *Config) { c.Node.StaticPodPath = dir }), write
}

// reread makes the kubelet read the directory: the fake clock has to pass the pause after a change.
func (r *rig) reread(what string, check func() string) {
	r.t.Helper()
	r.until(what, func() string {
		missing := check()
		if missing != "" {
			r.advance(coalesceWrites)
		}
		return missing
	})
}

func (r *rig) uids() (out []types.UID) {
	pods, _ := r.runtime.Pods(r.t.Context())
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}

func TestStaticPod(t *testing.T) {
	r, write := staticRig(t)
	const name = "web-n1"
	mirror := r.waitSummary(name, "Running c:running+started+ready")
	uid := types.UID(mirror.Annotations[configHash])
	if mirror.UID == uid || mirror.Annotations[configMirror] != string(uid) || mirror.Annotations[configSource] != "file" || mirror.Annotations[configSeen] == "" {
		t.Errorf("got %s, %v", mirror.UID, mirror.Annotations)
	}
	if owner := metav1.GetControllerOf(mirror); owner == nil || owner.Kind != "Node" || owner.Name != "n1" || owner.UID != r.kubelet.currentNode().UID {
		t.Errorf("the owner is %+v", owner)
	}
	if got := r.uids(); len(got) != 1 || got[0] != uid {
		t.Errorf("the runtime has %v, not %s", got, uid)
	}
	r.event(name, "Started", "Container started")

	// A client deletes the mirror: it is created again, and the container runs on.
	r.delete(name)
	r.until("a new mirror", func() string {
		pod := r.get(name)
		if pod == nil || pod.UID == mirror.UID || summary(pod) != "Running c:running+started+ready" {
			return summary(pod)
		}
		return ""
	})
	if spec, ok := r.runtime.spec(uid, "c"); !ok || spec.Attempt != 0 || len(r.uids()) != 1 {
		t.Errorf("the pod was restarted: %+v, %v", spec, r.uids())
	}

	// A changed file is another pod, which starts after the old one has ended.
	r.runtime.mu.Lock()
	r.runtime.stopped = func() {
		if len(r.runtime.pods) != 1 {
			t.Errorf("%d pods run while the old one ends", len(r.runtime.pods))
		}
	}
	r.runtime.mu.Unlock()
	write(strings.Replace(staticManifest, "nginx", "nginx:2", 1))
	r.reread("the changed pod", func() string {
		pod := r.get(name)
		if pod == nil || pod.Spec.Containers[0].Image != "nginx:2" || summary(pod) != "Running c:running+started+ready" {
			return summary(pod)
		}
		if got := r.uids(); len(got) != 1 || got[0] == uid {
			return fmt.Sprint(got)
		}
		return ""
	})
	write("")
	r.reread("the end of the pod", func() string {
		if pod := r.get(name); pod != nil || len(r.uids()) > 0 {
			return fmt.Sprint(summary(pod), r.uids())
		}
		return ""
	})
}

// TestStaticPodOfTheLastStart: the next kubelet finds the static pods that run, and ends those whose files have gone meanwhile.
func TestStaticPodOfTheLastStart(t *testing.T) {
	r, write := staticRig(t)
	path := r.kubelet.StaticPodPath
	restart := func() {
		r.stop()
		r.start(func(_ *HostConfig, c *Config) { c.Node.StaticPodPath = path })
	}
	r.waitSummary("web-n1", "Running c:running+started+ready")
	uid := r.uids()[0]
	restart()
	r.waitSummary("web-n1", "Running c:running+started+ready")
	if spec, _ := r.runtime.spec(uid, "c"); spec.Attempt != 0 || len(r.uids()) != 1 {
		t.Errorf("the pod was started again: %v", r.uids())
	}
	r.stop()
	write("")
	restart()
	r.until("the end of the pod", func() string {
		if pod := r.get("web-n1"); pod != nil || len(r.uids()) > 0 {
			return fmt.Sprint(summary(pod), r.uids())
		}
		return ""
	})
}

// TestStaticPodCounts: a static pod uses the resources of its node once.
func TestStaticPodCounts(t *testing.T) {
	r, _ := staticRig(t)
	r.waitSummary("web-n1", "Running c:running+started+ready")
	w := newPodWorker(r.kubelet, keyOf(r.get("web-n1")), "other")
	if pods := len(w.admittedPods(&corev1.Pod{})); pods != 1 {
		t.Errorf("%d pods are in use", pods)
	}
	if got, err := r.api.List(t.Context(), client.Target{Resource: client.Pods}, metav1.ListOptions{}); err != nil || len(got.Items) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestHalfWrittenStaticPod: a file that is being written keeps its pod until the next poll.
func TestHalfWrittenStaticPod(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	r.kubelet.StaticPodPath = file
	pods := &staticPods{}
	read := func(content string, keep bool) (uid types.UID, seen string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r.kubelet.readStaticPods(pods, keep)
		if pod := r.host.static(objects.Key{Namespace: "default", Name: "web-n1"}); pod != nil {
			return pod.UID, pod.Annotations[configSeen]
		}
		return "", ""
	}
	uid, seen := read(staticManifest, true)
	r.advance(time.Minute)
	if again, at := read(staticManifest, false); uid == "" || again != uid || at != seen {
		t.Errorf("read again: %s seen %s, then %s seen %s", uid, seen, again, at)
	}
	if got, _ := read("kind: P", true); got != uid {
		t.Errorf("after a change: got %q", got)
	}
	if got, _ := read("kind: P", false); got != "" {
		t.Errorf("after the next poll: got %q", got)
	}
}
