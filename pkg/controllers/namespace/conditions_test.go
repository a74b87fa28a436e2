package namespace

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// failing is a Client whose deletes of collections and lists of definitions fail.
type failing struct {
	client.Client
	deletes map[string]bool // by resource
	lists   map[string]bool
}

func (f failing) Delete(ctx context.Context, t client.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	if t.All && f.deletes[t.Resource.Resource] {
		return nil, apierrors.NewInternalError(errors.New(t.Resource.Resource + " stay"))
	}
	return f.Client.Delete(ctx, t, opts)
}

func (f failing) List(ctx context.Context, t client.Target, opts metav1.ListOptions) (client.List, error) {
	if f.lists[t.Resource.Resource] {
		return client.List{}, apierrors.NewInternalError(errors.New("no " + t.Resource.Resource))
	}
	return f.Client.List(ctx, t, opts)
}

// TestFailedDeletion: the conditions of a namespace count the resources that could not be deleted, and a failed discovery
// has a separate condition.
func TestFailedDeletion(t *testing.T) {
	ctx, c := t.Context(), apiservertest.New(t).Client("test")
	create := func(target client.Target, obj runtime.Object) {
		if _, err := c.Create(ctx, target, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		client failing
		want   string
	}{
		"three resources": {
			failing{c, map[string]bool{"configmaps": true, "secrets": true, "serviceaccounts": true}, nil},
			"NamespaceDeletionContentFailure: ContentDeletionFailed: Failed to delete all resource types, 3 remaining: " +
				"Internal error occurred: configmaps stay, Internal error occurred: secrets stay, Internal error occurred: serviceaccounts stay",
		},
		"one resource": {
			failing{c, map[string]bool{"secrets": true}, nil},
			"NamespaceDeletionContentFailure: ContentDeletionFailed: Failed to delete all resource types, 1 remaining: " +
				"Internal error occurred: secrets stay",
		},
		"definitions": {
			failing{c, nil, map[string]bool{controller.CustomResourceDefinitions.Resource: true}},
			"NamespaceDeletionDiscoveryFailure: DiscoveryFailed: discover custom resources: Internal error occurred: no customresourcedefinitions",
		},
	} {
		namespaceName := strings.ReplaceAll(name, " ", "-")
		create(client.Target{Resource: client.Namespaces}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName}})
		create(client.Target{Resource: client.ConfigMaps, Namespace: namespaceName}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		create(client.Target{Resource: client.Secrets, Namespace: namespaceName}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		create(client.Target{Resource: client.ServiceAccounts, Namespace: namespaceName}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		r := &namespace{client: test.client}
		left := r.deleteContent(ctx, namespaceName)
		if !left.failed() {
			t.Errorf("%s: the deletion did not fail", name)
		}
		var got []string
		for _, c := range left.conditions() {
			if c.Status == corev1.ConditionTrue && slices.Contains([]corev1.NamespaceConditionType{
				corev1.NamespaceDeletionContentFailure, corev1.NamespaceDeletionDiscoveryFailure,
			}, c.Type) {
				got = append(got, string(c.Type)+": "+c.Reason+": "+c.Message)
			}
		}
		if text := strings.Join(got, "; "); text != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, test.want)
		}
	}
}
