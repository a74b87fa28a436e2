package apiserver_test

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func TestFlowSchemasTellOfTheirLevel(t *testing.T) {
	e := apiservertest.New(t)
	ctx := testContext(t)
	flow := clientset(t, e.AdminConfig).FlowcontrolV1()
	said := func(name string) (out flowcontrolv1.FlowSchemaCondition) {
		t.Helper()
		s, err := flow.FlowSchemas().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Status.Conditions {
			out = c
		}
		return out
	}
	schema := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "l"},
	}}
	made, err := flow.FlowSchemas().Create(ctx, schema, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Status.Conditions) != 0 {
		t.Errorf("a new one: %v", made.Status)
	}
	missing := said("s")
	if missing.Type != "Dangling" || missing.Status != "True" || missing.Reason != "NotFound" ||
		missing.Message != `This FlowSchema references the PriorityLevelConfiguration object named "l" but there is no such object` {
		t.Errorf("without its level: %v", missing)
	}
	if again := said("s"); again != missing {
		t.Errorf("asked again: %v", again)
	}
	level := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: "Reject"}},
	}}
	if _, err := flow.PriorityLevelConfigurations().Create(ctx, level, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found := said("s")
	if found.Status != "False" || found.Reason != "Found" ||
		found.Message != `This FlowSchema references the PriorityLevelConfiguration object named "l" and it exists` {
		t.Errorf("with its level: %v", found)
	}
	if c := said("catch-all"); c.Status != "False" {
		t.Errorf("the system's own: %v", c)
	}
	now, err := flow.FlowSchemas().Get(ctx, "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := now.ManagedFields[0] // what was applied comes first
	if first.Manager != "api-priority-and-fairness-config-consumer-v1" || first.Operation != "Apply" || first.Subresource != "status" {
		t.Errorf("got managedFields %v", first)
	}
}
