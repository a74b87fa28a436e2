package namespace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// remaining is what a namespace still has after a deletion of its content, and what went wrong.
type remaining struct {
	objects    map[schema.GroupVersionResource]int
	finalizers map[string]int // the number of objects with a finalizer
	discovery  error          // custom resources could not be discovered
	deletion   []error        // one for each resource whose objects could not be deleted
}

// count returns the number of objects.
func (r *remaining) count() (n int) {
	for _, c := range r.objects {
		n += c
	}
	return n
}

// failed reports whether some content is unknown or could not be deleted.
func (r *remaining) failed() bool { return r.discovery != nil || len(r.deletion) > 0 }

// conditions returns the conditions of a namespace's deletion, in the API's order.
func (r *remaining) conditions() []corev1.NamespaceCondition {
	return []corev1.NamespaceCondition{
		condition(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered",
			r.discovery != nil, "DiscoveryFailed", func() string { return r.discovery.Error() }),
		condition(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed",
			false, "", nil),
		condition(corev1.NamespaceDeletionContentFailure, "ContentDeleted", "All content successfully deleted, may be waiting on finalization",
			len(r.deletion) > 0, "ContentDeletionFailed", r.deletionMessage),
		condition(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed",
			len(r.objects) > 0, "SomeResourcesRemain", r.objectsMessage),
		condition(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers", "All content-preserving finalizers finished",
			len(r.finalizers) > 0, "SomeFinalizersRemain", r.finalizersMessage),
	}
}

// condition returns a condition with the status True, reason and message if it holds, else with okReason and okMessage.
func condition(kind corev1.NamespaceConditionType, okReason, okMessage string, holds bool, reason string, message func() string) corev1.NamespaceCondition {
	if !holds {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: okReason, Message: okMessage}
	}
	return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message()}
}

func (r *remaining) deletionMessage() string {
	messages := make([]string, len(r.deletion))
	for i, err := range r.deletion {
		messages[i] = err.Error()
	}
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(messages), sortedList(messages))
}

func (r *remaining) objectsMessage() string {
	var parts []string
	for resource, n := range r.objects {
		parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, n))
	}
	return "Some resources are remaining: " + sortedList(parts)
}

func (r *remaining) finalizersMessage() string {
	var parts []string
	for finalizer, n := range r.finalizers {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", finalizer, n))
	}
	return "Some content in the namespace has finalizers remaining: " + sortedList(parts)
}

// sortedList joins parts in an order that does not change from sync to sync.
func sortedList(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// setCondition puts c into s and reports whether s has changed. The transition time changes only with the status.
func setCondition(s *corev1.NamespaceStatus, c corev1.NamespaceCondition, now time.Time) bool {
	i := slices.IndexFunc(s.Conditions, func(have corev1.NamespaceCondition) bool { return have.Type == c.Type })
	if i < 0 {
		c.LastTransitionTime = controller.WholeSeconds(now)
		s.Conditions = append(s.Conditions, c)
		return true
	}
	have := &s.Conditions[i]
	if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return false
	}
	c.LastTransitionTime = transition(have, c.Status, now)
	*have = c
	return true
}

func transition(have *corev1.NamespaceCondition, status corev1.ConditionStatus, now time.Time) metav1.Time {
	if have.Status == status {
		return have.LastTransitionTime
	}
	return controller.WholeSeconds(now)
}
