package apiserver_test

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func TestFlowSchemaConditions(t *testing.T) {
	e := apiservertest.New(t)
	ctx := testContext(t)
	flow := clientset(t, e.AdminConfig).FlowcontrolV1()
	condition := func(name string) (out flowcontrolv1.FlowSchemaCondition) {
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
	created, err := flow.FlowSchemas().Create(ctx, schema, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.Status.Conditions) != 0 {
		t.Errorf("the response to the create has a status: %v", created.Status)
	}
	missing := condition("s") // the condition is written before the response to the create
	if missing.Type != "Dangling" || missing.Status != "True" || missing.Reason != "NotFound" ||
		missing.Message != `This FlowSchema references the PriorityLevelConfiguration object named "l" but there is no such object` {
		t.Errorf("the level does not exist: %v", missing)
	}
	level := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: "Reject"}},
	}}
	if _, err := flow.PriorityLevelConfigurations().Create(ctx, level, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found := condition("s")
	if found.Status != "False" || found.Reason != "Found" ||
		found.Message != `This FlowSchema references the PriorityLevelConfiguration object named "l" and it exists` {
		t.Errorf("the level exists: %v", found)
	}
	if c := condition("catch-all"); c.Status != "False" {
		t.Errorf("the default one: %v", c)
	}
	stored, err := flow.FlowSchemas().Get(ctx, "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := stored.ManagedFields[0] // applied fields are first
	if first.Manager != "api-priority-and-fairness-config-consumer-v1" || first.Operation != "Apply" || first.Subresource != "status" {
		t.Errorf("got managedFields %v", first)
	}
}
