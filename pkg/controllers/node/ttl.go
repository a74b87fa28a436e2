package node

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// ttlSteps are the numbers of nodes for which kubelets may keep objects for a number of seconds. The ranges overlap, so that a cluster
// at a border doesn't change back and forth.
var ttlSteps = [...]struct{ least, most, seconds int }{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt, 300},
}

// ttlStep returns the step of a cluster with a number of nodes that was at the given step.
func ttlStep(step, nodes int) int {
	for nodes > ttlSteps[step].most {
		step++
	}
	for nodes < ttlSteps[step].least {
		step--
	}
	return step
}

type ttl struct {
	client client.Client
	nodes  *client.Cache[*corev1.Node]

	mu          sync.Mutex
	count, step int // of nodes; of ttlSteps
}

// TTL annotates nodes with the time for which kubelets may keep objects of the API, which grows with the number of nodes. A node that has the
// time of a smaller cluster gets the present one at its next change.
func TTL(env controller.Env) reconcile.Loop {
	r := &ttl{client: env.Client, nodes: env.Caches.Nodes()}
	return reconcile.Loop{
		Name:      "ttl",
		Sources:   []reconcile.Source{r.countNodes, reconcile.Watch(r.nodes)},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

// countNodes subscribes to nodes. It comes before the source that enqueues them, so that a node is counted first.
func (r *ttl) countNodes(context.Context, reconcile.Enqueue) {
	r.nodes.Subscribe(func(ch client.Change[*corev1.Node]) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case ch.Added():
			r.count++
		case ch.Deleted():
			r.count--
		}
		r.step = ttlStep(r.step, r.count)
	})
}

func (r *ttl) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	node, ok := r.nodes.Get(key)
	if !ok {
		return 0, nil
	}
	r.mu.Lock()
	seconds := ttlSteps[r.step].seconds
	r.mu.Unlock()
	if has, err := strconv.Atoi(node.Annotations[corev1.ObjectTTLAnnotationKey]); err == nil && has == seconds {
		return 0, nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, corev1.ObjectTTLAnnotationKey, seconds)
	_, err := r.client.Patch(ctx, client.In(client.Nodes, key), client.Patch{Type: types.StrategicMergePatchType, Data: []byte(patch)}, metav1.PatchOptions{})
	return 0, err
}
