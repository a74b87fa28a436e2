package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
)

// setRemovedNodes compares the nodes of the last start with those of c. Nodes that c no longer has leave the cluster: the next
// start with kubelets drains and deletes them. A node can't change its runtime, since its pods run on the old one.
func (c *Config) setRemovedNodes(last *settings) error {
	if last == nil {
		return nil
	}
	runtimeOf := map[string]string{}
	for _, n := range c.Nodes {
		for _, name := range n.names() {
			runtimeOf[name] = n.Runtime.Name
		}
	}
	for _, n := range slices.Concat(last.Nodes, last.Leaving) {
		for _, name := range n.names() {
			switch now, ok := runtimeOf[name]; {
			case !ok:
				one := n
				one.Name, one.Count = name, 1
				c.leaving = append(c.leaving, one)
			case now != n.Runtime.Name:
				return fmt.Errorf("node %s can't change its runtime from %s to %s: give the new node another name", name, n.Runtime.Name, now)
			}
		}
	}
	return nil
}

// drainInterval is the interval at which the pods of a leaving node are listed.
const drainInterval = 200 * time.Millisecond

// drainService returns a service that runs the kubelet of a leaving node until the node has no pods, and deletes the Node.
func (d *Daemon) drainService(k *kubelet.Kubelet, node string) (service, error) {
	c, err := d.api.client(nodesReader, "minikctl", user.SystemPrivilegedGroup)
	if err != nil {
		return service{}, err
	}
	return service{name: "drain of node " + node, run: func(ctx context.Context) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- k.Run(running) }()
		err := drainAndDelete(running, c, d.machine, node)
		if err == nil {
			slog.InfoContext(ctx, "node deleted", "node", node)
			err = d.forgetNode(node)
		} else if ctx.Err() == nil {
			slog.ErrorContext(ctx, "removed node not deleted; retried at the next start", "node", node, "err", err)
		}
		stop()
		err = errors.Join(err, <-ended)
		<-ctx.Done() // a service that ends by itself ends the daemon
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}}, nil
}

// drainAndDelete cordons the node, deletes its pods with their grace periods, and deletes the Node. Pods of DaemonSets go
// last, after the Node: their controller would create them again.
func drainAndDelete(ctx context.Context, c client.Client, clk clock.Clock, node string) error {
	target := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: node}
	cordon := client.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"unschedulable":true}}`)}
	if _, err := c.Patch(ctx, target, cordon, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cordon: %w", err)
	}
	replaced := func(p *corev1.Pod) bool {
		owner := metav1.GetControllerOf(p)
		return owner == nil || owner.Kind != "DaemonSet"
	}
	if err := deletePods(ctx, c, clk, node, replaced); err != nil {
		return err
	}
	if _, err := c.Delete(ctx, target, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete: %w", err)
	}
	return deletePods(ctx, c, clk, node, func(*corev1.Pod) bool { return true })
}

// deletePods deletes the node's pods that match and waits until none of them is left.
func deletePods(ctx context.Context, c client.Client, clk clock.Clock, node string, match func(*corev1.Pod) bool) error {
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	for {
		list, err := c.List(ctx, client.Target{Resource: resource}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		left := 0
		for _, item := range list.Items {
			pod, ok := item.(*corev1.Pod)
			if !ok || !match(pod) {
				continue
			}
			left++
			if pod.DeletionTimestamp != nil {
				continue
			}
			target := client.Target{Resource: resource, Namespace: pod.Namespace, Name: pod.Name}
			if _, err := c.Delete(ctx, target, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		if left == 0 {
			return nil
		}
		if err := clock.Sleep(ctx, clk, drainInterval); err != nil {
			return err
		}
	}
}
