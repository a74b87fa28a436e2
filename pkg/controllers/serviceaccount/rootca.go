package serviceaccount

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Name and description of the ConfigMap with the cluster's CA certificate.
const (
	rootCAName        = "kube-root-ca.crt"
	rootCADescription = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// RootCA keeps the ConfigMap kube-root-ca.crt in each namespace.
func RootCA(env controller.Env) reconcile.Loop {
	r := rootCA{
		client: env.Client, namespaces: env.Caches.Namespaces(),
		maps: client.CacheWhere[*corev1.ConfigMap](env.Caches, client.ConfigMaps,
			metav1.ListOptions{FieldSelector: "metadata.name=" + rootCAName}),
		annotations: map[string]string{"kubernetes.io/description": rootCADescription},
		data:        map[string]string{"ca.crt": string(env.RootCA)},
	}
	return reconcile.Loop{
		Name:      "rootca",
		Sources:   []reconcile.Source{reconcile.Watch(r.namespaces), namespaceOfChanged(r.maps, rootCAName)},
		Reconcile: r.reconcile,
	}
}

type rootCA struct {
	client            client.Client
	namespaces        *client.Cache[*corev1.Namespace]
	maps              *client.Cache[*corev1.ConfigMap]
	annotations, data map[string]string
}

func (r rootCA) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	ns, ok := r.namespaces.Get(key)
	if !ok || ns.Status.Phase == corev1.NamespaceTerminating {
		return 0, nil
	}
	name := objects.Key{Namespace: ns.Name, Name: rootCAName}
	have, ok := r.maps.Get(name)
	if !ok {
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: rootCAName, Annotations: maps.Clone(r.annotations)},
			Data:       maps.Clone(r.data),
		}
		_, err := r.client.Create(ctx, client.Target{Resource: client.ConfigMaps, Namespace: ns.Name}, cm, metav1.CreateOptions{})
		return 0, ignoreExistsOrTerminating(err)
	}
	if maps.Equal(have.Data, r.data) && len(have.Annotations) > 0 {
		return 0, nil
	}
	next := have.DeepCopy()
	next.Data, next.Annotations = maps.Clone(r.data), maps.Clone(r.annotations)
	_, err := r.client.Update(ctx, client.In(client.ConfigMaps, name), next, metav1.UpdateOptions{})
	return 0, err
}
