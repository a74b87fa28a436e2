package scheduler

import (
	"context"
	"errors"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// offline is the API of a simulation, as plugins see it through client-go: each request fails, and informers, which are never started, are
// empty. So plugins that use them can be created without a server.
type offline struct{}

var errOffline = errors.New("this scheduler runs without an API server")

func (offline) Get(context.Context, client.Target, metav1.GetOptions) (objects.Object, error) {
	return nil, errOffline
}
func (offline) List(context.Context, client.Target, metav1.ListOptions) (client.List, error) {
	return client.List{}, errOffline
}
func (offline) Watch(context.Context, client.Target, metav1.ListOptions) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) { yield(client.Event{}, errOffline) }
}
func (offline) Create(context.Context, client.Target, runtime.Object, metav1.CreateOptions) (runtime.Object, error) {
	return nil, errOffline
}
func (offline) Update(context.Context, client.Target, runtime.Object, metav1.UpdateOptions) (runtime.Object, error) {
	return nil, errOffline
}
func (offline) Patch(context.Context, client.Target, client.Patch, metav1.PatchOptions) (runtime.Object, error) {
	return nil, errOffline
}
func (offline) Delete(context.Context, client.Target, metav1.DeleteOptions) (runtime.Object, error) {
	return nil, errOffline
}
