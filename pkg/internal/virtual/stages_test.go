package virtual_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// staged is a cluster whose kubelets play Stages.
type staged struct{ *virtual.Cluster }

func startStaged(t testing.TB, nodes ...string) staged {
	return staged{virtual.Start(t, virtual.Config{Nodes: nodes, Stages: true})}
}

// stage creates a Stage with a spec in YAML.
func (c staged) stage(name, spec string) {
	c.Helper()
	obj := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &obj); err != nil {
		c.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": obj}}
	u.SetGroupVersionKind(kwok.GroupVersion.WithKind("Stage"))
	u.SetName(name)
	if _, err := c.Create(c.Context(), client.Target{Resource: kwok.Stages}, u, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c staged) deleteStage(name string) {
	c.Helper()
	if _, err := c.Delete(c.Context(), client.Target{Resource: kwok.Stages, Name: name}, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c staged) pod(name string, labels map[string]string) {
	c.Helper()
	p := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	p.Labels = labels
	if _, err := c.Create(c.Context(), client.Target{Resource: client.Pods, Namespace: "default"}, p, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// states returns name=phase of all pods, sorted.
func (c staged) states() string {
	c.Helper()
	list, err := c.List(c.Context(), client.Target{Resource: client.Pods, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	var out []string
	for _, obj := range list.Items {
		p := obj.(*corev1.Pod)
		out = append(out, p.Name+"="+string(p.Status.Phase))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c staged) want(what, want string) {
	c.Helper()
	if got := c.states(); got != want {
		c.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// ready has the fields that make a pod with one container run.
const ready = `
resourceRef: {apiGroup: v1, kind: Pod}
selector:
  matchLabels: {by: stage}
  matchExpressions:
  - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
  - {key: .status.phase, operator: In, values: [Pending]}
delay: {durationMilliseconds: 5000, jitterDurationMilliseconds: 10000}
next:
  statusTemplate: |
    phase: Running
    podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
    startTime: {{ Now | Quote }}
    conditions:
    - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
    containerStatuses:
    {{ range .spec.containers }}
    - {name: {{ .name }}, image: {{ .image }}, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: {{ Now | Quote }}}}}
    {{ end }}
`

// TestStageTakesPod: a pod belongs to the Stage that matches it, also after restarts of the kubelets, until no Stage selects it. Other
// pods are the kubelet's.
func TestStageTakesPod(t *testing.T) {
	c := startStaged(t, "a", "b")
	c.stage("ready", ready)
	c.Advance(0)
	c.pod("mine", nil)
	c.pod("staged", map[string]string{"by": "stage"})
	c.Advance(4 * time.Second)
	c.want("before the delay", "mine=Running staged=Pending")
	c.RestartKubelets()
	c.Advance(0)
	c.want("after a restart", "mine=Running staged=Pending")
	c.Advance(10 * time.Second)
	c.want("after the delay", "mine=Running staged=Running")
	address := c.get("staged").Status.PodIP
	c.RestartKubelets()
	c.Advance(time.Minute)
	if got := c.get("staged"); got.Status.PodIP != address || address == "" || got.Status.ContainerStatuses[0].ContainerID != "" {
		t.Errorf("the kubelet has written the status: %+v", got.Status)
	}
	c.pod("later", map[string]string{"by": "stage"})
	c.Advance(0)
	c.want("a pod that waits", "later=Pending mine=Running staged=Running")
	c.deleteStage("ready")
	c.Advance(0)
	c.want("without the Stage", "later=Running mine=Running staged=Running")
	if got := c.get("staged"); got.Status.ContainerStatuses[0].ContainerID == "" {
		t.Errorf("the kubelet has not taken the pod over: %+v", got.Status)
	}
}

func (c staged) get(name string) *corev1.Pod {
	c.Helper()
	got, err := c.Get(c.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: name}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return got.(*corev1.Pod)
}

// TestStageDeletes: without a Stage for it, the kubelet deletes a pod of the Stages. With one, the Stage does, when its delay is over and
// it has removed the finalizer.
func TestStageDeletes(t *testing.T) {
	c := startStaged(t, "a")
	c.stage("ready", ready)
	c.pod("p", map[string]string{"by": "stage"})
	c.Advance(10 * time.Second)
	c.deletePod("p")
	c.Advance(0)
	c.want("deleted by the kubelet", "")
	c.stage("delete", `
resourceRef: {kind: Pod}
selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
delay: {durationMilliseconds: 30000}
steps: [{finalizers: {remove: [{value: example.com/f}]}}, {delete: true}]
`)
	p := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	p.Finalizers = []string{"example.com/f"}
	if _, err := c.Create(c.Context(), client.Target{Resource: client.Pods, Namespace: "default"}, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	c.deletePod("p")
	c.Advance(29 * time.Second)
	c.want("before the delay", "p=Running")
	c.Advance(2 * time.Second)
	c.want("after the delay", "")
}

func (c staged) deletePod(name string) {
	c.Helper()
	if _, err := c.Delete(c.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: name}, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
}

// TestStagesRepeat: with the same seed, random delays and choices are the same.
func TestStagesRepeat(t *testing.T) {
	run := func(seed uint64) string {
		c := staged{virtual.Start(t, virtual.Config{Nodes: []string{"a"}, Stages: true, Seed: seed})}
		c.stage("ready", ready)
		c.stage("fail", `
resourceRef: {kind: Pod}
selector: {matchLabels: {by: stage}, matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}
delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 9000}
next: {statusTemplate: 'phase: Failed'}
`)
		c.Advance(0)
		var out []string
		for i := range 8 {
			c.pod(fmt.Sprint("p", i), map[string]string{"by": "stage"})
			c.Advance(0)
		}
		for range 10 {
			c.Advance(time.Second)
			out = append(out, c.states())
		}
		return strings.Join(out, "\n")
	}
	first := run(7)
	if again := run(7); again != first {
		t.Errorf("two runs differ:\n%s\n\n%s", first, again)
	}
	if !strings.Contains(first, "Failed") || !strings.Contains(first, "Running") {
		t.Errorf("only one of the Stages was drawn:\n%s", first)
	}
	if run(8) == first {
		t.Error("another seed gives the same run")
	}
}

// TestSilentNode: nothing of a silent node changes, and what is due is done when it is back.
func TestSilentNode(t *testing.T) {
	c := startStaged(t, "a")
	c.stage("ready", ready)
	c.pod("staged", map[string]string{"by": "stage"})
	c.pod("mine", nil)
	c.pod("deleted", nil)
	c.Advance(time.Second)
	c.annotate("a", kubelet.SimDown)
	c.deletePod("deleted")
	c.Advance(30 * time.Second)
	c.want("silent", "deleted=Running mine=Running staged=Pending")
	if got := c.readyOf("a"); got != "True" {
		t.Errorf("Ready is %s before the grace period has passed", got)
	}
	c.Advance(time.Minute)
	if got := c.readyOf("a"); got != "Unknown" {
		t.Errorf("Ready is %s after it", got)
	}
	c.RestartKubelets()
	c.Advance(time.Minute)
	if got := c.readyOf("a"); got != "Unknown" {
		t.Errorf("Ready is %s after a restart", got)
	}
	c.annotate("a", kubelet.SimNotReady)
	c.Advance(time.Second)
	if got := c.readyOf("a"); got != "False" {
		t.Errorf("Ready is %s, want False", got)
	}
	c.Advance(10 * time.Second)
	c.want("back", "mine=Running staged=Running")
	c.annotate("a", "")
	c.Advance(0)
	if got := c.readyOf("a"); got != "True" {
		t.Errorf("Ready is %s, want True", got)
	}
	c.Advance(time.Minute)
	if p := c.get("mine"); !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
		t.Errorf("the pod is not ready again: %+v", p.Status.Conditions)
	}
}

func (c staged) annotate(node, state string) {
	c.Helper()
	data := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, kubelet.SimNode, state)
	if state == "" {
		data = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, kubelet.SimNode)
	}
	if _, err := c.Patch(c.Context(), client.Target{Resource: client.Nodes, Name: node}, client.Patch{Type: types.MergePatchType, Data: []byte(data)}, metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c staged) readyOf(node string) corev1.ConditionStatus { return c.readyCondition(node).Status }

func (c staged) readyCondition(node string) corev1.NodeCondition {
	c.Helper()
	got, err := c.Get(c.Context(), client.Target{Resource: client.Nodes, Name: node}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for _, cond := range got.(*corev1.Node).Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond
		}
	}
	return corev1.NodeCondition{}
}

// TestNodeStage: the status of a node belongs to a Stage that has changed it, as long as the Stage selects the node.
func TestNodeStage(t *testing.T) {
	c := startStaged(t, "a", "b")
	c.stage("broken", `
resourceRef: {kind: Node}
selector:
  matchExpressions:
  - {key: '.metadata.annotations.broken', operator: In, values: ["yes"]}
  - {key: '.status.phase', operator: In, values: [Running]}
  - {key: '.status.conditions[] | select(.type == "Ready") | .status', operator: In, values: ["True"]}
next: {statusTemplate: 'conditions: [{type: Ready, status: "False", reason: Broken, message: "", lastTransitionTime: {{ Now | Quote }}, lastHeartbeatTime: {{ Now | Quote }}}]'}
`)
	set := func(value string) {
		t.Helper()
		data := []byte(`{"metadata":{"annotations":{"broken":` + value + `}}}`)
		if _, err := c.Patch(c.Context(), client.Target{Resource: client.Nodes, Name: "a"}, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(0)
	set(`"yes"`)
	c.Advance(0)
	since := c.readyCondition("a").LastTransitionTime
	c.Advance(10 * time.Minute)
	if got := c.readyCondition("a").LastTransitionTime; !got.Equal(&since) {
		t.Errorf("the kubelet has written the condition: it changed at %v, and again by %v", since, got)
	}
	if a, b := c.readyOf("a"), c.readyOf("b"); a != "False" || b != "True" {
		t.Errorf("Ready is %s and %s, want False and True", a, b)
	}
	set("null")
	c.Advance(10 * time.Second)
	if a := c.readyOf("a"); a != "True" {
		t.Errorf("Ready is %s when the Stage no longer selects the node", a)
	}
}

// TestStagedDeployment: a rollout with Stages for 60 pods on three nodes ends, and no address is given twice.
func TestStagedDeployment(t *testing.T) {
	c := startStaged(t, "a", "b", "c")
	c.stage("ready", ready)
	d := &appsv1.Deployment{ObjectMeta: meta("d"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(60)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"by": "stage"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"by": "stage"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
	}}
	if _, err := c.Create(c.Context(), client.Target{Resource: client.Deployments, Namespace: "default"}, d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		c.Advance(2 * time.Second)
		c.RestartKubelets()
	}
	c.Advance(10 * time.Second)
	list, err := c.List(c.Context(), client.Target{Resource: client.Pods, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, obj := range list.Items {
		p := obj.(*corev1.Pod)
		if seen[p.Status.PodIP] || p.Status.PodIP == "" {
			t.Errorf("pod %s has the address %q", p.Name, p.Status.PodIP)
		}
		seen[p.Status.PodIP] = true
	}
	got, err := c.Get(c.Context(), client.Target{Resource: client.Deployments, Namespace: "default", Name: "d"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := got.(*appsv1.Deployment).Status.AvailableReplicas; n != 60 {
		t.Errorf("%d replicas are available", n)
	}
}
