package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func parse(t *testing.T, s string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(s), u); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestStatus(t *testing.T) {
	object := func(apiVersion, kind, rest string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"name":"x","generation":2},` + rest + `}`
	}
	for _, c := range []struct {
		name, object string
		state        string
		done         bool
		err          string
	}{
		{"a pending pod", object("v1", "Pod", `"status":{"phase":"Pending"}`), "", false, ""},
		{"a pod that is not ready", object("v1", "Pod", `"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}`), "", false, ""},
		{"a ready pod", object("v1", "Pod", `"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`), "", true, ""},
		{"a pod that is through", object("v1", "Pod", `"status":{"phase":"Succeeded"}`), "", true, ""},
		{"a failed pod", object("v1", "Pod", `"status":{"phase":"Failed","reason":"Evicted","message":"no room"}`), "", false, "pod failed: Evicted no room"},
		{"a deployment that is not seen yet", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":1}`),
			"Waiting for deployment spec update to be observed...", false, ""},
		{"a deployment on its way", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":1}`),
			`Waiting for deployment "x" rollout to finish: 1 of 2 updated replicas are available...`, false, ""},
		{"a deployment that is there", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}`),
			`deployment "x" successfully rolled out`, true, ""},
		{"a deployment that gave up", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":2,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`),
			"", false, "exceeded its progress deadline"},
		{"a set whose pods are replaced by hand", object("apps/v1", "StatefulSet", `"spec":{"replicas":1,"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":2,"readyReplicas":1}`),
			"1 of 1 replicas ready", true, ""},
		{"a daemon set whose pods are replaced by hand", object("apps/v1", "DaemonSet", `"spec":{"updateStrategy":{"type":"OnDelete"}}`), "", true, ""},
		{"a replica set on its way", object("apps/v1", "ReplicaSet", `"spec":{"replicas":3},"status":{"observedGeneration":2,"readyReplicas":1}`), "1 of 3 replicas ready", false, ""},
		{"a replica set that is not seen yet", object("apps/v1", "ReplicaSet", `"spec":{"replicas":1},"status":{"observedGeneration":1,"readyReplicas":1}`), "1 of 1 replicas ready", false, ""},
		{"a custom resource with replicas", object("example.com/v1", "Site", `"spec":{"replicas":1}`), "", true, ""},
		{"a replica set scaled down to none", object("apps/v1", "ReplicaSet", `"spec":{"replicas":0},"status":{"observedGeneration":2}`), "0 of 0 replicas ready", true, ""},
		{"anything else", object("v1", "ConfigMap", `"data":{}`), "", true, ""},
		{"a Pod of another group", object("example.com/v1", "Pod", `"status":{"phase":"Failed"}`), "", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, done, err := status(parse(t, c.object))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || state != c.state || done != c.done {
				t.Errorf("got %q, %v, %v; want %q, %v", state, done, err, c.state, c.done)
			}
		})
	}
}

func TestPodSelector(t *testing.T) {
	const template = `,"template":{"metadata":{}}`
	for _, c := range []struct{ name, kind, spec, want, err string }{
		{"labels", "apps/v1 Deployment", `{"selector":{"matchLabels":{"b":"2","a":"1"}}` + template + `}`, "a=1,b=2", ""},
		{"expressions", "apps/v1 Deployment", `{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["x","y"]},{"key":"b","operator":"Exists"}]}` + template + `}`, "a in (x,y),b", ""},
		{"a plain map", "v1 ReplicationController", `{"selector":{"app":"web"}` + template + `}`, "app=web", ""},
		{"empty", "apps/v1 Deployment", `{"selector":{}` + template + `}`, "", ""},
		{"no such operator", "apps/v1 Deployment", `{"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}` + template + `}`, "", `"Like" is not a valid label selector operator`},
		{"a service has no pods of its own", "v1 Service", `{"selector":{"app":"web"}}`, "", ""},
		{"no selector", "v1 Pod", `{}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			apiVersion, kind, _ := strings.Cut(c.kind, " ")
			got, err := podSelector(parse(t, `{"apiVersion":"`+apiVersion+`","kind":"`+kind+`","spec":`+c.spec+`}`))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || got != c.want {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestPodLine(t *testing.T) {
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, c := range []struct {
		name   string
		pod    corev1.Pod
		change watch.EventType
		want   string
	}{
		{"pending", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, watch.Added, "pod/x  Pending"},
		{"on its node", corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating")}}}, watch.Modified, "pod/x  ContainerCreating  on node-1"},
		{"its init containers come first", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending,
			InitContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull")}, ContainerStatuses: []corev1.ContainerStatus{waiting("PodInitializing")}}},
			watch.Modified, "pod/x  ErrImagePull"},
		{"waiting for its init containers says nothing", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{waiting("PodInitializing")}}}, watch.Modified, "pod/x  Pending"},
		{"running", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.9"}}, watch.Modified, "pod/x  Running  at 127.0.0.9"},
		{"ready", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.9", Conditions: ready}},
			watch.Modified, "pod/x  Running, ready  on n  at 127.0.0.9"},
		{"ready, but a container has failed again", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready,
			ContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff")}}}, watch.Modified, "pod/x  CrashLoopBackOff"},
		{"no image", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "nobody has it"}}}}}},
			watch.Modified, "pod/x  ErrImagePull  on n: nobody has it"},
		{"no room", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}}}, watch.Modified, "pod/x  Pending: 0/1 nodes are available"},
		{"going", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, watch.Modified, "pod/x  Terminating"},
		{"gone", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, watch.Deleted, "pod/x  gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pod.Name = "x"
			if got := podLine(&c.pod, c.change); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// deploymentAt is a Deployment of one replica, so many of which are available.
func deploymentAt(version, available string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","generation":1,"resourceVersion":"` + version + `"},
		"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},"template":{"spec":{}}},
		"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":` + available + `}}`
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

const (
	comesUp = `deployment.apps/web  Waiting for deployment "web" rollout to finish: 0 of 1 updated replicas are available...`
	isUp    = `deployment.apps/web  deployment "web" successfully rolled out`
)

func TestWait(t *testing.T) {
	type watcher = func(event func(string), r *http.Request)
	events := func(lines ...string) watcher {
		return func(send func(string), _ *http.Request) {
			for _, l := range lines {
				send(oneLine(l))
			}
		}
	}
	for _, c := range []struct {
		name    string
		get     []answer
		watches []watcher
		said    []string
		err     string
	}{
		{"it is there already", []answer{{body: deploymentAt("1", "1")}}, nil, []string{isUp}, ""},
		{"it comes up, and what says nothing new makes no line", []answer{{body: deploymentAt("1", "0")}},
			[]watcher{events(event("MODIFIED", deploymentAt("2", "0")), event("MODIFIED", deploymentAt("3", "1")))}, []string{comesUp, isUp}, ""},
		{"the watch ends in between", []answer{{body: deploymentAt("1", "0")}, {body: deploymentAt("4", "1")}}, []watcher{events(), events()}, []string{comesUp, isUp}, ""},
		{"the watch has expired", []answer{{body: deploymentAt("1", "0")}, {body: deploymentAt("4", "1")}},
			[]watcher{events(event("ERROR", failure(410, "Expired").body)), events()}, []string{comesUp, isUp}, ""},
		{"it is deleted", []answer{{body: deploymentAt("1", "0")}}, []watcher{events(event("DELETED", deploymentAt("2", "0")))}, []string{comesUp},
			"wait for deployment.apps/web: it was deleted"},
		{"it is gone after the watch", []answer{{body: deploymentAt("1", "0")}, failure(404, "NotFound")}, []watcher{events(), events()}, []string{comesUp},
			"wait for deployment.apps/web: NotFound!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, map[string][]answer{http.MethodGet: c.get})
			s.watches = c.watches
			var said []string
			w := &Waiter{Clients: s.clients(t), Say: func(line string) { said = append(said, line) }}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := w.Wait(ctx, s.info(t, deploymentAt("1", "0")))
			if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			if !slices.Equal(said, c.said) {
				t.Errorf("said:\n got %q\nwant %q", said, c.said)
			}
		})
	}
}

func TestWaitShowsPods(t *testing.T) {
	pod := func(phase string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1"},"spec":{"nodeName":"n"},"status":{"phase":"` + phase + `"}}`
	}
	shown := make(chan struct{})
	s := newServer(t, map[string][]answer{http.MethodGet: {{body: deploymentAt("1", "0")}}})
	s.pods = func(send func(string), _ *http.Request) {
		for _, phase := range []string{"Pending", "Pending", "Running"} {
			send(event("MODIFIED", pod(phase)))
		}
	}
	s.watches = append(s.watches, func(send func(string), _ *http.Request) {
		<-shown
		send(oneLine(event("MODIFIED", deploymentAt("2", "1"))))
	})
	var said []string
	w := &Waiter{Clients: s.clients(t), Say: func(line string) {
		if strings.HasPrefix(line, "pod/") {
			said = append(said, line)
		}
		if strings.Contains(line, "Running") {
			close(shown)
		}
	}}
	if err := w.Wait(t.Context(), s.info(t, deploymentAt("1", "0"))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pod/web-1  Pending  on n", "pod/web-1  Running  on n"}; !slices.Equal(said, want) {
		t.Errorf("said:\n got %q\nwant %q", said, want)
	}
	if !strings.Contains(s.got(), "pods app=web") {
		t.Errorf("watched the wrong pods: %s", s.got())
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newServer(t, map[string][]answer{http.MethodGet: {{body: deploymentAt("1", "0")}}})
	s.watches = append(s.watches, func(func(string), *http.Request) { cancel(errors.New("not ready after 1s")) })
	w := &Waiter{Clients: s.clients(t), Say: func(string) {}}
	err := w.Wait(ctx, s.info(t, deploymentAt("1", "0")))
	if want := "wait for deployment.apps/web: not ready after 1s"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
