package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// runningPod creates a ready pod with a label.
func runningPod(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	pods := c.CoreV1().Pods("default")
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestEvictionUsesDisruptionBudget: a budget of one disruption allows one eviction and refuses the next.
func TestEvictionUsesDisruptionBudget(t *testing.T) {
	c := kubernetes.NewForConfigOrDie(apiservertest.New(t).AdminConfig)
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runningPod(t, c, "a")
	runningPod(t, c, "b")
	budgets := c.PolicyV1().PodDisruptionBudgets("default")
	budget, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	evict := func(name string) error {
		return c.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2}
	if _, err := budgets.UpdateStatus(t.Context(), budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evict("a"); err != nil {
		t.Fatal(err)
	}
	budget, err = budgets.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || budget.Status.DisruptionsAllowed != 0 || len(budget.Status.DisruptedPods) != 1 || len(budget.Status.Conditions) != 1 {
		t.Errorf("%v: got %+v", err, budget.Status)
	}
	if !slices.ContainsFunc(budget.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "kube-apiserver" && e.Subresource == "status" && strings.Contains(e.FieldsV1.String(), `"f:disruptedPods"`)
	}) {
		t.Errorf("the fields written by the eviction have no owner: %+v", budget.ManagedFields)
	}
	refused(t, evict("b"), "The disruption budget web does not allow evicting pods currently")
}

// TestEvictionMarksPod: an eviction sets the condition DisruptionTarget before it deletes the pod.
func TestEvictionMarksPod(t *testing.T) {
	c := kubernetes.NewForConfigOrDie(apiservertest.New(t).AdminConfig)
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runningPod(t, c, "a")
	pods := c.CoreV1().Pods("default")
	pod, err := pods.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/keep"]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	evict := func(opts *metav1.DeleteOptions) error {
		return c.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, DeleteOptions: opts})
	}
	at := func(version string) *metav1.DeleteOptions {
		return &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}}
	}
	if err := evict(&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if err := evict(at("1")); !apierrors.IsConflict(err) {
		t.Errorf("another version: got %v, want a conflict", err)
	}
	if err := evict(&metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "can not be set for pod eviction, try after removing the option") {
		t.Errorf("an option for broken objects: got %v", err)
	}
	if now, err := pods.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || now.ResourceVersion != pod.ResourceVersion {
		t.Errorf("%v: the pod has changed: %+v", err, now)
	}
	if err := evict(at(pod.ResourceVersion)); err != nil {
		t.Fatal(err)
	}
	pod, err = pods.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" &&
			c.Message == "Eviction API: evicting" && !c.LastTransitionTime.IsZero()
	}) {
		t.Errorf("%v: got %+v", err, pod)
	}
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsTooManyRequests(err) {
		t.Fatalf("got %v, want 429", err)
	}
	s := status.Status()
	if s.Message != "Cannot evict pod as it would violate the pod's disruption budget." || len(s.Details.Causes) != 1 ||
		s.Details.Causes[0].Type != policyv1.DisruptionBudgetCause || s.Details.Causes[0].Message != why {
		t.Errorf("got %+v", s)
	}
}
