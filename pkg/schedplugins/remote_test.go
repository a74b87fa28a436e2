package schedplugins

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestRemoteScheduler binds pods through HTTP, as a scheduler in a process of its own. Most bindings share requests, and each has its
// trace, as if it had come alone.
func TestRemoteScheduler(t *testing.T) {
	const pods = 150
	c := newCluster(t)
	for i := range 3 {
		c.node(fmt.Sprintf("n%d", i), "64")
	}
	for i := range pods {
		c.pod(fmt.Sprintf("p%d", i), "100m")
	}
	cfg := rest.CopyConfig(c.env.AdminConfig)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user.KubeScheduler}
	c.start(func(s *scheduler.Config) {
		remote, err := client.HTTP(cfg, "kube-scheduler")
		if err != nil {
			t.Fatal(err)
		}
		s.Client, s.Remote = remote, true
	})
	for i := range pods {
		c.bound(fmt.Sprintf("p%d", i))
	}

	c.eventually(fmt.Sprintf("trace of each of the %d bindings", pods), func() bool { return c.checkBindingTraces() == pods }) // a trace ends after its pod is seen bound
	clients, err := kubernetes.NewForConfig(c.env.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(metrics), `minikctl_apiserver_requests_total{code="201",resource="bindingbatches",verb="create"}`) {
		t.Errorf("there was no batch: %v", err)
	}
}

// checkBindingTraces checks the traces of bindings, and returns their number.
func (c *cluster) checkBindingTraces() (n int) {
	c.t.Helper()
	traces, err := c.client.List(c.ctx, client.Target{Resource: minikctl.Traces}, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, item := range traces.Items {
		span := item.(*minikctl.Trace).Span
		if span.Sub != "binding" {
			continue
		}
		n++
		var stages []string
		for _, s := range span.Stages {
			stages = append(stages, s.Name)
		}
		if span.Actor != user.KubeScheduler || span.Agent != "kube-scheduler" || len(span.Causes) == 0 || !strings.Contains(strings.Join(stages, " "), "filter score reserve bind") {
			c.t.Fatalf("the trace of %s: actor %s, agent %s, causes %v, stages %v", span.Name, span.Actor, span.Agent, span.Causes, stages)
		}
	}
	return n
}
