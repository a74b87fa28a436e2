package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// spanOf returns the newest trace of an object.
func spanOf(t *testing.T, e *apiservertest.Env, name string) trace.Span {
	t.Helper()
	list, err := e.Client("test").List(testContext(t), client.Target{Resource: minikctl.Traces}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := len(list.Items) - 1; i >= 0; i-- {
		if tr := list.Items[i].(*minikctl.Trace); tr.Span.Name == name {
			return tr.Span
		}
	}
	t.Fatalf("no trace of %s", name)
	return trace.Span{}
}

func TestTraceReportsOfUsersAreIgnored(t *testing.T) {
	e := apiservertest.New(t)
	report := trace.Report{Causes: []uint64{3, 4}, Stages: []trace.Stage{{Name: "queue", Start: time.Unix(1, 0).UTC(), Took: time.Second}}}.Encode()
	const maps = "/api/v1/namespaces/kube-system/configmaps"
	do(t, e, "POST", maps, `{"metadata":{"name":"by-user"}}`, trace.Header, report, "User-Agent", "someone/1")
	do(t, e, "POST", maps, `{"metadata":{"name":"by-component"}}`, trace.Header, report, "User-Agent", "kube-controller-manager/1",
		"Impersonate-User", user.KubeControllerManager, "Impersonate-Group", user.SystemPrivilegedGroup)
	if s := spanOf(t, e, "by-user"); len(s.Causes) != 0 || s.Actor != "admin" {
		t.Errorf("by a user: got %+v", s)
	}
	s := spanOf(t, e, "by-component")
	if len(s.Causes) != 2 || s.Actor != user.KubeControllerManager || s.Agent != "kube-controller-manager" {
		t.Errorf("by a component: got %+v", s)
	}
	var stages []string
	for _, st := range s.Stages {
		stages = append(stages, st.Name)
	}
	if got := strings.Join(stages, " "); !strings.Contains(got, "queue") || !strings.Contains(got, "authn") || !strings.Contains(got, "decode") || !strings.Contains(got, "commit") {
		t.Errorf("got stages %q", got)
	}
	if resp, _ := do(t, e, "POST", maps, `{"metadata":{"name":"x"}}`, trace.Header, "{", "Impersonate-User", user.KubeControllerManager, "Impersonate-Group", user.SystemPrivilegedGroup); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad report: got %s", resp.Status)
	}
}

func TestCreateDecisionList(t *testing.T) {
	e := apiservertest.New(t)
	const path = "/apis/minikctl.dev/v1/namespaces/default/decisions"
	resp, body := do(t, e, "POST", path, `{"apiVersion":"minikctl.dev/v1","kind":"DecisionList","items":[
		{"metadata":{"name":"p.1-a"},"pod":"p","attempt":1,"outcome":"Unschedulable"},{"metadata":{"name":"p.2-b"},"pod":"p","attempt":2,"outcome":"Scheduled","node":"n"}]}`)
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(body)
	}
	if resp, body = do(t, e, "POST", path, `{"apiVersion":"minikctl.dev/v1","kind":"Decision","metadata":{"name":"q.1-a"},"pod":"q","outcome":"Scheduled"}`); resp.StatusCode != http.StatusCreated {
		t.Fatal(body)
	}
	list, err := e.Client("test").List(testContext(t), client.Target{Resource: minikctl.Decisions, Namespace: "default"}, metav1.ListOptions{LabelSelector: minikctl.PodLabel + "=p"})
	if err != nil || len(list.Items) != 2 || list.Items[1].(*minikctl.Decision).Node != "n" {
		t.Errorf("got %+v, %v", list.Items, err)
	}
}

// A decision is shown the same whether it has come as JSON or as protobuf.
func TestDecisionAsProtobuf(t *testing.T) {
	e := apiservertest.New(t)
	const path = "/apis/minikctl.dev/v1/namespaces/default/decisions"
	decision := `"pod":"p","podUID":"u","profile":"default-scheduler","attempt":1,"time":"2026-11-26T09:11:37.203786Z","outcome":"Scheduled","node":"n",` +
		`"nodes":3,"evaluated":3,"feasible":2,"rejected":[{"plugin":"TaintToleration","reasons":["a taint"],"nodes":["m"],"count":1}],"filters":["NodeName"],` +
		`"scores":[{"nodes":["n"],"total":-3,"plugins":[{"plugin":"ImageLocality","raw":5,"score":-3,"weight":1}]}],` +
		`"stages":[{"name":"queue","start":"2026-11-26T09:11:37.20306748Z","took":710404}],"pluginTimes":[{"point":"Bind","plugin":"DefaultBinder","took":5}]}`
	c, err := client.HTTP(e.AdminConfig, "test")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for name, create := range map[string]func(d *minikctl.Decision) error{
		"json": func(*minikctl.Decision) error {
			if resp, body := do(t, e, "POST", path, `{"metadata":{"name":"json"},`+decision); resp.StatusCode != http.StatusCreated {
				return errors.New(body)
			}
			return nil
		},
		"protobuf": func(d *minikctl.Decision) error {
			_, err := c.Create(testContext(t), client.Target{Resource: minikctl.Decisions, Namespace: "default"}, d, metav1.CreateOptions{})
			return err
		},
		"list": func(d *minikctl.Decision) error {
			to := client.Target{Resource: minikctl.Decisions, Namespace: "default"}
			_, err := c.Create(testContext(t), to, &minikctl.DecisionList{Items: []minikctl.Decision{*d}}, metav1.CreateOptions{})
			return err
		},
	} {
		var d minikctl.Decision
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"`+name+`"},`+decision), &d); err != nil {
			t.Fatal(err)
		}
		if err := create(&d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, body := do(t, e, "GET", path+"/"+name, "")
		_, shown[name], _ = strings.Cut(body, `"pod":`)
	}
	want := strings.TrimPrefix(decision, `"pod":`)
	for name, got := range shown {
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if resp, body := do(t, e, "GET", path, "", "Accept", "application/vnd.kubernetes.protobuf"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, "k8s\x00") {
		t.Errorf("a list as protobuf: %s %q", resp.Status, body)
	}
}

// A request whose body never arrives gets its response at the deadline, by the server's clock.
func TestSlowBodyIsCutOff(t *testing.T) {
	const limit = time.Minute // of a request that is not long-running
	clk := timerClock{testclock.NewFakeClock(time.Now()), limit, make(chan struct{}, 1)}
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Clock = clk })
	hc, err := rest.HTTPClientFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	body, never := io.Pipe()
	defer never.Close()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/api/v1/namespaces/default/configmaps", body)
	if err != nil {
		t.Fatal(err)
	}
	codes := make(chan int, 1)
	go func() {
		resp, err := hc.Do(req)
		if err != nil {
			codes <- 0
			return
		}
		_ = resp.Body.Close()
		codes <- resp.StatusCode
	}()
	if _, err := never.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-clk.started: // the server handles the request
		clk.Step(limit)
	case <-ctx.Done():
		t.Fatal("the request did not arrive")
	}
	select {
	case code := <-codes:
		if code != http.StatusGatewayTimeout {
			t.Errorf("got status %d", code)
		}
	case <-ctx.Done():
		t.Fatal("no response")
	}
}

// timerClock is a fake clock that reports the first timer of a duration.
type timerClock struct {
	*testclock.FakeClock
	duration time.Duration
	started  chan struct{}
}

func (c timerClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	timer := c.FakeClock.AfterFunc(d, f)
	if d == c.duration {
		select {
		case c.started <- struct{}{}:
		default:
		}
	}
	return timer
}
