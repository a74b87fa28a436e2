// Package serviceaccount holds the controllers of the objects that pods need to reach the API server: ServiceAccounts,
// their token Secrets, and the ConfigMap kube-root-ca.crt.
package serviceaccount

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// ServiceAccount keeps a ServiceAccount named default in each namespace.
func ServiceAccount(env controller.Env) reconcile.Loop {
	r := serviceAccount{env.Client, env.Caches.Namespaces(), client.CacheOf[*corev1.ServiceAccount](env.Caches, client.ServiceAccounts)}
	return reconcile.Loop{
		Name:      "serviceaccount",
		Sources:   []reconcile.Source{reconcile.Watch(r.namespaces), namespaceOfChanged(r.accounts, "default")},
		Reconcile: r.reconcile,
	}
}

type serviceAccount struct {
	client     client.Client
	namespaces *client.Cache[*corev1.Namespace]
	accounts   *client.Cache[*corev1.ServiceAccount]
}

func (r serviceAccount) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	ns, ok := r.namespaces.Get(key)
	if !ok || ns.Status.Phase == corev1.NamespaceTerminating {
		return 0, nil
	}
	if _, ok := r.accounts.Get(objects.Key{Namespace: ns.Name, Name: "default"}); ok {
		return 0, nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	t := client.Target{Resource: client.ServiceAccounts, Namespace: ns.Name}
	_, err := r.client.Create(ctx, t, account, metav1.CreateOptions{})
	return 0, ignoreExistsOrTerminating(err)
}

// ignoreExistsOrTerminating returns nil if the object exists already or its namespace is being deleted, and else err.
func ignoreExistsOrTerminating(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// namespaceOfChanged is a source of the namespaces in which the object of a name is changed or deleted.
func namespaceOfChanged[T objects.Object](c *client.Cache[T], name string) reconcile.Source {
	return reconcile.Map(c, func(ch client.Change[T]) []objects.Key {
		key := ch.Key()
		if key.Name != name || ch.Added() {
			return nil
		}
		return []objects.Key{{Name: key.Namespace}}
	})
}
