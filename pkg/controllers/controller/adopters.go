package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Adopters returns a function that maps an orphan to the owners that may adopt it: those in its namespace whose selector matches its labels.
func Adopters[T, O objects.Object](owners *client.Cache[O], selectorOf func(O) *metav1.LabelSelector) func(client.Change[T]) []objects.Key {
	return func(ch client.Change[T]) []objects.Key {
		if ch.Deleted() || ch.New.GetDeletionTimestamp() != nil || metav1.GetControllerOfNoCopy(ch.New) != nil {
			return nil
		}
		var keys []objects.Key
		for _, owner := range owners.List(ch.New.GetNamespace(), nil) {
			selector, err := metav1.LabelSelectorAsSelector(selectorOf(owner))
			if err == nil && !selector.Empty() && selector.Matches(labels.Set(ch.New.GetLabels())) {
				keys = append(keys, KeyOf(owner))
			}
		}
		return keys
	}
}
