package verbs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/store"
)

// TestManyErrors compares the message for many errors with the library's.
func TestManyErrors(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	different := func(n int) (errs field.ErrorList) {
		for i := range n {
			errs = append(errs, field.Duplicate(field.NewPath("spec").Index(i), "a"), field.Required(field.NewPath("x"), ""))
		}
		return errs
	}
	same := make(field.ErrorList, 2*maxJoinedErrors)
	for i := range same {
		same[i] = field.Required(field.NewPath("x"), "")
	}
	for name, errs := range map[string]field.ErrorList{"few": different(3), "many": different(maxJoinedErrors), "many of one": same} {
		got, want := newInvalid(kind, "d", errs), apierrors.NewInvalid(kind, "d", errs)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %.300s\nwant %.300s", name, got.Error(), want.Error())
		}
	}
}

// TestBoundedErrors checks what bounds the errors of a response.
func TestBoundedErrors(t *testing.T) {
	long := field.Invalid(field.NewPath("metadata", "labels"), strings.Repeat("ä", maxShown), "too long")
	many := field.ErrorList{long}
	for i := range 2 * maxErrors {
		many = append(many, field.Required(field.NewPath("spec").Index(i), ""))
	}
	got := newInvalid(schema.GroupKind{Kind: "Pod"}, "p", many).ErrStatus
	if len(got.Details.Causes) != maxErrors || !strings.Contains(got.Message, `spec[4998]: Required value`) || strings.Contains(got.Message, "spec[4999]") {
		t.Errorf("got %d causes", len(got.Details.Causes))
	}
	if want := `Invalid value: "` + strings.Repeat("ä", maxShown/2) + `…": too long`; got.Details.Causes[0].Message != want {
		t.Errorf("got %d bytes, want %d", len(got.Details.Causes[0].Message), len(want))
	}
}

func TestDuplicateOwnerReferences(t *testing.T) {
	yes, no := true, false
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	with := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		out := ref
		change(&out)
		return out
	}
	all := []metav1.OwnerReference{
		ref, ref,
		with(func(r *metav1.OwnerReference) { r.Controller = &yes }),
		with(func(r *metav1.OwnerReference) { r.Controller = &no }),
		with(func(r *metav1.OwnerReference) { r.Controller = new(false) }), // as the one before
		with(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = &no }),
		with(func(r *metav1.OwnerReference) { r.Name = "q" }),
	}
	var warned []string
	w := &write{req: &Request{}}
	w.req.Warn = func(text string) { warned = append(warned, text) }
	obj := &metav1.ObjectMeta{OwnerReferences: all}
	w.dedupOwnerReferences(obj, false)
	want := []metav1.OwnerReference{all[0], all[2], all[3], all[5], all[6]}
	if !reflect.DeepEqual(obj.OwnerReferences, want) || len(warned) != 1 {
		t.Errorf("got %v, warned %q", obj.OwnerReferences, warned)
	}
}

// TestTooLargeToStore: an object that is too large for the store has Kubernetes' error, which names no key of the store.
func TestTooLargeToStore(t *testing.T) {
	err := toStatus(schema.GroupResource{Resource: "pods"}, "p", fmt.Errorf("write o/core/pods/default/p: %w", store.ErrTooLarge))
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Code != 500 || status.ErrStatus.Reason != "" || err.Error() != "etcdserver: request is too large" {
		t.Errorf("got %#v", err)
	}
}
