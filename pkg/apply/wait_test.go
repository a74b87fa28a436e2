package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/clock"
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
		{"a failed pod", object("v1", "Pod", `"status":{"phase":"Failed","reason":"Evicted","message":"no room"}`), "", false, "pod failed: Evicted: no room"},
		{"a deployment that is not seen yet", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":1}`),
			"Waiting for deployment spec update to be observed...", false, ""},
		{"a deployment in progress", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":1}`),
			`Waiting for deployment "x" rollout to finish: 1 of 2 updated replicas are available...`, false, ""},
		{"an available deployment", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}`),
			`deployment "x" successfully rolled out`, true, ""},
		{"a deployment that gave up", object("apps/v1", "Deployment", `"spec":{"replicas":2},"status":{"observedGeneration":2,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`),
			"", false, "exceeded its progress deadline"},
		{"a deployment with old replicas", object("apps/v1", "Deployment", `"spec":{"replicas":1},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":1,"availableReplicas":2}`),
			`Waiting for deployment "x" rollout to finish: 1 old replicas are pending termination...`, false, ""},
		{"a set whose pods the user replaces", object("apps/v1", "StatefulSet", `"spec":{"replicas":1,"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":2,"availableReplicas":1}`),
			"1 of 1 replicas are available", true, ""},
		{"a stateful set in progress", object("apps/v1", "StatefulSet", `"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"availableReplicas":1}`), "Waiting for 1 pods to be ready...", false, ""},
		{"a set with pods of an old revision", object("apps/v1", "StatefulSet", `"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"availableReplicas":2,"updatedReplicas":1,"updateRevision":"r"}`),
			"waiting for statefulset rolling update to complete 1 pods at revision r...", false, ""},
		{"a set with a partition", object("apps/v1", "StatefulSet", `"spec":{"replicas":2,"updateStrategy":{"rollingUpdate":{"partition":1}}},"status":{"observedGeneration":2,"replicas":2,"availableReplicas":2,"updatedReplicas":1,"updateRevision":"r"}`),
			"statefulset rolling update complete 2 pods at revision r...", true, ""},
		{"a daemon set that is not seen yet", object("apps/v1", "DaemonSet", `"spec":{}`), "Waiting for daemon set spec update to be observed...", false, ""},
		{"a daemon set in progress", object("apps/v1", "DaemonSet", `"spec":{},"status":{"observedGeneration":2,"desiredNumberScheduled":2,"currentNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}`),
			`Waiting for daemon set "x" rollout to finish: 1 of 2 updated pods are available...`, false, ""},
		{"an available daemon set", object("apps/v1", "DaemonSet", `"spec":{},"status":{"observedGeneration":2,"desiredNumberScheduled":2,"currentNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}`),
			`daemon set "x" successfully rolled out`, true, ""},
		{"a daemon set whose pods the user replaces", object("apps/v1", "DaemonSet", `"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":2,"desiredNumberScheduled":1,"currentNumberScheduled":1,"numberAvailable":1}`),
			`daemon set "x" successfully rolled out`, true, ""},
		{"a job that has not started", object("batch/v1", "Job", `"spec":{}`), "0 of 1 completed, 0 of 0 active pods are ready", false, ""},
		{"a job that runs", object("batch/v1", "Job", `"spec":{"completions":2},"status":{"startTime":"2026-01-02T03:04:05Z","active":1,"ready":1,"succeeded":1}`),
			"running: 1 of 2 completed, 1 active pods are ready", true, ""},
		{"a job whose pod is not ready", object("batch/v1", "Job", `"spec":{},"status":{"startTime":"2026-01-02T03:04:05Z","active":1,"ready":0}`),
			"0 of 1 completed, 0 of 1 active pods are ready", false, ""},
		{"a completed job", object("batch/v1", "Job", `"spec":{},"status":{"succeeded":1,"conditions":[{"type":"Complete","status":"True"}]}`), "1 of 1 completed", true, ""},
		{"a failed job", object("batch/v1", "Job", `"spec":{},"status":{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"m"}]}`),
			"", false, "job failed: BackoffLimitExceeded: m"},
		{"a replica set in progress", object("apps/v1", "ReplicaSet", `"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"availableReplicas":1}`), "1 of 3 replicas are available", false, ""},
		{"a replica set that is not seen yet", object("apps/v1", "ReplicaSet", `"spec":{"replicas":1},"status":{"observedGeneration":1,"availableReplicas":1}`), "1 of 1 replicas are available", false, ""},
		{"a custom resource without conditions", object("example.com/v1", "Site", `"spec":{"replicas":1}`), "", true, ""},
		{"a custom resource that is not seen yet", object("example.com/v1", "Site", `"status":{"observedGeneration":1}`), "its controller has not observed the change yet", false, ""},
		{"a custom resource that is not ready", object("example.com/v1", "Site", `"status":{"conditions":[{"type":"Ready","status":"False","reason":"Building"}]}`), "not ready: Building", false, ""},
		{"a custom resource that is stalled", object("example.com/v1", "Site", `"status":{"conditions":[{"type":"Stalled","status":"True","reason":"NoQuota"}]}`), "", false, "stalled: NoQuota"},
		{"an object that is being deleted", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","deletionTimestamp":"2026-01-02T03:04:05Z"}}`, "", false, "it is being deleted"},
		{"a claim", object("v1", "PersistentVolumeClaim", `"status":{"phase":"Pending"}`), "not bound yet", false, ""},
		{"a replica set scaled down to none", object("apps/v1", "ReplicaSet", `"spec":{"replicas":0},"status":{"observedGeneration":2}`), "0 of 0 replicas are available", true, ""},
		{"anything else", object("v1", "ConfigMap", `"data":{}`), "", true, ""},
		{"a Pod of another group", object("example.com/v1", "Pod", `"status":{"phase":"Failed"}`), "", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := statusOf(parse(t, c.object))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || got.progress != c.state || got.current != c.done {
				t.Errorf("got %+v, %v; want %q, %v", got, err, c.state, c.done)
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
			ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating")}}}, watch.Modified, "pod/x  ContainerCreating  on node-1: FailedMount: no volume"},
		{"its init containers come first", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending,
			InitContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull")}, ContainerStatuses: []corev1.ContainerStatus{waiting("PodInitializing")}}},
			watch.Modified, "pod/x  ErrImagePull"},
		{"no progress while init containers run", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{waiting("PodInitializing")}}}, watch.Modified, "pod/x  Pending"},
		{"running", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.9"}}, watch.Modified, "pod/x  Running  at 127.0.0.9"},
		{"ready", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.9", Conditions: ready}},
			watch.Modified, "pod/x  Running, ready  on n  at 127.0.0.9"},
		{"ready, but a container has failed again", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready,
			ContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff")}}}, watch.Modified, "pod/x  CrashLoopBackOff"},
		{"no image", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}}}}},
			watch.Modified, "pod/x  ErrImagePull  on n: no such image"},
		{"a volume was missing", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
			InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}, watch.Modified, "pod/x  Pending  on n"},
		{"no room", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}}}, watch.Modified, "pod/x  Pending: 0/1 nodes are available"},
		{"going", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, watch.Modified, "pod/x  Terminating"},
		{"gone", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, watch.Deleted, "pod/x  gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pod.Name = "x"
			p := podProgress("pod/x", &c.pod, c.change, "FailedMount: no volume")
			if got := p.Line(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWaitsFor(t *testing.T) {
	yes, no := true, false
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	node := corev1.PodSpec{NodeName: "n", InitContainers: make([]corev1.Container, 2), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "lb"}}}
	containers := func(c corev1.ContainerStatus) corev1.PodStatus {
		c.Name = "c"
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{c}}
	}
	for _, c := range []struct {
		name string
		pod  corev1.Pod
		want string
	}{
		{"no node", corev1.Pod{}, "the scheduler"},
		{"just bound", corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, "the kubelet"},
		{"init container", corev1.Pod{Spec: node, Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "a", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, {Name: "b"}}}}, "init container b, 2 of 2"},
		{"start", corev1.Pod{Spec: node, Status: containers(corev1.ContainerStatus{})}, "the start of container c"},
		{"startup", corev1.Pod{Spec: node, Status: containers(corev1.ContainerStatus{State: running, Started: &no})}, "the startup probe of container c"},
		{"readiness", corev1.Pod{Spec: node, Status: containers(corev1.ContainerStatus{State: running, Started: &yes})}, "the readiness probe of container c"},
		{"gate", corev1.Pod{Spec: node, Status: containers(corev1.ContainerStatus{State: running, Ready: true})}, "the readiness gate lb"},
		{"succeeded", corev1.Pod{Spec: node, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, ""},
		{"terminating", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Spec: node}, "the end of its containers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := waitsFor(&c.pod); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// deploymentAt is a Deployment with one replica and the given resourceVersion and available replicas.
func deploymentAt(version, available string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","uid":"d","generation":1,"resourceVersion":"` + version + `"},
		"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},"template":{"spec":{}}},
		"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":` + available + `}}`
}

// replicaSets are the ReplicaSets of web and of another Deployment.
const replicaSets = `{"apiVersion":"apps/v1","kind":"ReplicaSetList","items":[
	{"metadata":{"name":"web-a","uid":"r1","annotations":{"deployment.kubernetes.io/revision":"2"},"ownerReferences":[{"kind":"Deployment","uid":"d","controller":true}]}},
	{"metadata":{"name":"web-b","uid":"r0","annotations":{"deployment.kubernetes.io/revision":"1"},"ownerReferences":[{"kind":"Deployment","uid":"d","controller":true}]}},
	{"metadata":{"name":"other-a","uid":"r2","ownerReferences":[{"kind":"Deployment","uid":"d2","controller":true}]}}]}`

// firingClock returns a clock on which each timer fires as soon as it runs.
func firingClock(t *testing.T) clock.Clock {
	c := clocktesting.NewFakeClock(time.Time{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if c.HasWaiters() {
				c.Step(holdTime)
			}
			runtime.Gosched()
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return c
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
		get     []response
		watches []watcher
		printed []string
		err     string
	}{
		{"it is available already", []response{{body: deploymentAt("1", "1")}}, nil, []string{isUp}, ""},
		{"unchanged progress is printed once", []response{{body: deploymentAt("1", "0")}},
			[]watcher{events(event("MODIFIED", deploymentAt("2", "0")), event("MODIFIED", deploymentAt("3", "1")))}, []string{comesUp, isUp}, ""},
		{"the watch ends in between", []response{{body: deploymentAt("1", "0")}, {body: deploymentAt("4", "1")}}, []watcher{events(), events()}, []string{comesUp, isUp}, ""},
		{"the watch has expired", []response{{body: deploymentAt("1", "0")}, {body: deploymentAt("4", "1")}},
			[]watcher{events(event("ERROR", failure(410, "Expired").body)), events()}, []string{comesUp, isUp}, ""},
		{"it is deleted", []response{{body: deploymentAt("1", "0")}}, []watcher{events(event("DELETED", deploymentAt("2", "0")))}, []string{comesUp},
			"wait for deployment.apps/web: it was deleted"},
		{"it is gone after the watch", []response{{body: deploymentAt("1", "0")}, failure(404, "NotFound")}, []watcher{events(), events()}, []string{comesUp},
			"wait for deployment.apps/web: NotFound!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, map[string][]response{http.MethodGet: c.get})
			s.watches = c.watches
			var printed []string
			w := &Waiter{Clients: s.clients(t), Clock: firingClock(t), Report: func(p Progress) { printed = append(printed, p.Line()) }}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := w.Wait(ctx, s.info(t, deploymentAt("1", "0")))
			if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			if !slices.Equal(printed, c.printed) {
				t.Errorf("printed:\n got %q\nwant %q", printed, c.printed)
			}
		})
	}
}

func TestWaitShowsPods(t *testing.T) {
	pod := func(name, owner, phase string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","ownerReferences":[{"kind":"ReplicaSet","uid":"` + owner + `","controller":true}]},"spec":{"nodeName":"n"},"status":{"phase":"` + phase + `"}}`
	}
	shown := make(chan struct{})
	s := newServer(t, map[string][]response{http.MethodGet: {{body: deploymentAt("1", "0")}}})
	s.paths = map[string]string{"/apis/apps/v1/namespaces/default/replicasets": replicaSets}
	s.pods = func(send func(string), _ *http.Request) {
		send(event("MODIFIED", pod("other-1", "r2", "Running"))) // of a Deployment with the same selector
		for _, phase := range []string{"Pending", "Pending", "Running"} {
			send(event("MODIFIED", pod("web-1", "r1", phase)))
		}
	}
	s.watches = append(s.watches, func(send func(string), _ *http.Request) {
		<-shown
		send(oneLine(event("MODIFIED", deploymentAt("2", "1"))))
	})
	var printed []string
	w := &Waiter{Clients: s.clients(t), Clock: firingClock(t), Report: func(p Progress) {
		line := p.Line()
		if strings.HasPrefix(line, "pod/") {
			printed = append(printed, line)
		}
		if strings.Contains(line, "web-1  Running") {
			close(shown)
		}
	}}
	if err := w.Wait(t.Context(), s.info(t, deploymentAt("1", "0"))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pod/web-1  Pending  on n", "pod/web-1  Running  on n"}; !slices.Equal(printed, want) {
		t.Errorf("printed:\n got %q\nwant %q", printed, want)
	}
	if !strings.Contains(s.got(), "pods app=web") {
		t.Errorf("watched the wrong pods: %s", s.got())
	}
}

// TestWaitShowsWarnings checks that a pod's last Warning about its start is shown until a container runs, those of other pods are not, and
// Warnings with other reasons are not.
func TestWaitShowsWarnings(t *testing.T) {
	pod := func(name, uid, state string) string {
		return event("MODIFIED", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`","uid":"`+uid+`","ownerReferences":[{"kind":"ReplicaSet","uid":"r1","controller":true}]},"spec":{"nodeName":"n"},"status":{"phase":"Pending","containerStatuses":[{"name":"c","state":{`+state+`}}]}}`)
	}
	warning := func(pod, uid, reason, message string) string {
		return event("ADDED", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"type":"Warning","involvedObject":{"kind":"Pod","name":"`+pod+`","uid":"`+uid+`"},"reason":"`+reason+`","message":"`+message+`"}`)
	}
	creating := `"waiting":{"reason":"ContainerCreating"}`
	waits, mounted, running := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := newServer(t, map[string][]response{http.MethodGet: {{body: deploymentAt("1", "0")}}})
	s.paths = map[string]string{"/apis/apps/v1/namespaces/default/replicasets": replicaSets}
	s.pods = func(send func(string), _ *http.Request) {
		send(pod("web-1", "u1", creating))
		<-mounted
		send(pod("web-1", "u1", `"running":{}`))
	}
	var selector string
	s.events = func(send func(string), r *http.Request) {
		selector = r.URL.Query().Get("fieldSelector")
		<-waits
		send(warning("web-1", "u1", "FieldNotHonoured", "no effect"))
		send(warning("web-1", "u0", "FailedMount", "of a deleted pod of this name"))
		send(warning("web-1", "u1", "FailedMount", "no such ConfigMap"))
	}
	s.watches = append(s.watches, func(send func(string), _ *http.Request) {
		<-running
		send(oneLine(event("MODIFIED", deploymentAt("2", "1"))))
	})
	var printed []string
	w := &Waiter{Clients: s.clients(t), Clock: firingClock(t), Report: func(p Progress) {
		if p.Pod == "" {
			return
		}
		printed = append(printed, p.Line())
		close([]chan struct{}{waits, mounted, running}[len(printed)-1])
	}}
	if err := w.Wait(t.Context(), s.info(t, deploymentAt("1", "0"))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pod/web-1  ContainerCreating  on n", "pod/web-1  ContainerCreating  on n: FailedMount: no such ConfigMap", "pod/web-1  Pending  on n"}; !slices.Equal(printed, want) {
		t.Errorf("printed:\n got %q\nwant %q", printed, want)
	}
	if want := "involvedObject.kind=Pod,type=Warning"; selector != want {
		t.Errorf("watched Events with %s, want %s", selector, want)
	}
}

func TestWaitReturnsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newServer(t, map[string][]response{http.MethodGet: {{body: deploymentAt("1", "0")}}})
	s.watches = append(s.watches, func(func(string), *http.Request) { cancel(errors.New("not ready after 1s")) })
	w := &Waiter{Clients: s.clients(t), Clock: clocktesting.NewFakeClock(time.Time{}), Report: func(Progress) {}}
	err := w.Wait(ctx, s.info(t, deploymentAt("1", "0")))
	if want := "wait for deployment.apps/web: not ready after 1s: Waiting for deployment"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWaitNeedsHoldTime: a Deployment that is available for a moment only is not ready.
func TestWaitNeedsHoldTime(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Time{})
	s := newServer(t, map[string][]response{http.MethodGet: {{body: deploymentAt("1", "1")}}})
	s.watches = append(s.watches, func(send func(string), _ *http.Request) {
		waitFor(t, clk.HasWaiters)
		clk.Step(holdTime - 1)
		send(oneLine(event("MODIFIED", deploymentAt("2", "0"))))
		waitFor(t, func() bool { return !clk.HasWaiters() })
		clk.Step(holdTime)
		send(oneLine(event("MODIFIED", deploymentAt("3", "1"))))
		waitFor(t, clk.HasWaiters)
		clk.Step(holdTime)
	})
	var printed []string
	w := &Waiter{Clients: s.clients(t), Clock: clk, Report: func(p Progress) { printed = append(printed, p.Line()) }}
	if err := w.Wait(t.Context(), s.info(t, deploymentAt("1", "1"))); err != nil {
		t.Fatal(err)
	}
	if want := []string{comesUp, isUp}; !slices.Equal(printed, want) {
		t.Errorf("printed:\n got %q\nwant %q", printed, want)
	}
}

// TestRestartBeginsHoldTimeAgain: a container that restarts begins the hold time again, though the Deployment stays available.
func TestRestartBeginsHoldTimeAgain(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Time{})
	s := newServer(t, map[string][]response{http.MethodGet: {{body: deploymentAt("1", "1")}}})
	w := &Waiter{Clients: s.clients(t), Clock: clk, Report: func(Progress) {}}
	pods := signals{restarted: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- w.ready(t.Context(), s.info(t, deploymentAt("1", "1")), pods) }()
	waitFor(t, clk.HasWaiters)
	clk.Step(holdTime / 2)
	pods.restarted <- struct{}{}
	pods.restarted <- struct{}{} // the first is handled once the second is received
	if clk.Step(holdTime / 2); !clk.HasWaiters() {
		t.Error("the restart did not restart the hold time")
	}
	for { // the second restart may be handled only now, and begins the hold time once more
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if clk.HasWaiters() {
			clk.Step(holdTime)
		}
		runtime.Gosched()
	}
}

func TestNoteRestart(t *testing.T) {
	p := newPodWatcher(&Waiter{}, newServer(t, nil).info(t, deploymentAt("1", "1")))
	for _, c := range []struct {
		restarts int32
		want     int
	}{{0, 0}, {0, 0}, {1, 1}, {2, 1}} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{RestartCount: c.restarts}}}}
		if p.note(t.Context(), pod, watch.Modified); len(p.restarted) != c.want {
			t.Errorf("%d restarts: %d signals, want %d", c.restarts, len(p.restarted), c.want)
		}
	}
}

// waitFor waits until ok.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Error("waited for a minute")
			return
		}
	}
}

// TestWaitReportsEventAndLog: a pod that can't start ends the wait with its last Event and log lines; pods of other Deployments and of
// older ReplicaSets don't.
func TestWaitReportsEventAndLog(t *testing.T) {
	pod := func(name, owner, reason string) string {
		return oneLine(event("MODIFIED", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`","namespace":"default","uid":"`+name+`","ownerReferences":[{"kind":"ReplicaSet","uid":"`+owner+`","controller":true}]},
			"status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"`+reason+`","message":"back-off"}},"lastState":{"terminated":{"exitCode":1}}}]}}`))
	}
	s := newServer(t, map[string][]response{http.MethodGet: {{body: deploymentAt("1", "0")}}})
	s.paths = map[string]string{
		"/apis/apps/v1/namespaces/default/replicasets": replicaSets,
		"/api/v1/namespaces/default/events": `{"apiVersion":"v1","kind":"EventList","items":[
			{"type":"Warning","reason":"BackOff","message":"Back-off restarting","lastTimestamp":"2026-01-02T03:04:05Z"},
			{"type":"Normal","reason":"Started","message":"Started","lastTimestamp":"2026-01-02T03:04:05Z"},
			{"type":"Warning","reason":"Old","message":"Old","lastTimestamp":"2026-01-02T03:04:04Z"}]}`,
		"/api/v1/namespaces/default/pods/web-1/log": "starting\nno database\n",
	}
	s.pods = func(send func(string), _ *http.Request) {
		send(pod("other-1", "r2", "CrashLoopBackOff"))
		send(pod("old-1", "r0", "CrashLoopBackOff"))
		send(pod("web-1", "r1", "ContainerCreating"))
		send(pod("web-1", "r1", "CrashLoopBackOff"))
	}
	w := &Waiter{Clients: s.clients(t), Clock: firingClock(t), Report: func(Progress) {}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := w.Wait(ctx, s.info(t, deploymentAt("1", "0")))
	const want = `deployment.apps/web: pod web-1: container c: CrashLoopBackOff: back-off
last event of pod web-1: BackOff: Back-off restarting
log of pod web-1, container c:
  starting
  no database`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
