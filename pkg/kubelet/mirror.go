package kubelet

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// The API shows a static pod as its mirror, with the same name and spec. The node runs the static pod, whose UID is the hash of its file.
// A changed file is another pod, which starts after the old one has ended. A mirror that a client deletes is created again.

// syncStatic syncs a static pod and its mirror.
func (h *Host) syncStatic(ctx context.Context, key objects.Key, static *corev1.Pod) (time.Duration, error) {
	k := h.kubelet(static.Spec.NodeName)
	if k == nil || !k.listed() {
		return 0, nil // the first listing enqueues it
	}
	if ended, err := h.removeOrphans(ctx, key, static); !ended || err != nil {
		return 0, err // a removed pod enqueues the key
	}
	mirrorErr := k.ensureMirror(ctx, key, static)
	pod, ok := h.pod(key)
	if !ok || pod.UID != static.UID {
		return 0, mirrorErr // the file has changed
	}
	w := h.worker(k, key, static.UID)
	after, err := w.sync(ctx, pod)
	if mirror, ok := h.apiPod(key); ok && mirrors(mirror, static) {
		h.repostStatus(key, &statusUpdate{worker: w, status: w.lastStatus(pod)}) // a new mirror has none
	}
	return after, errors.Join(err, mirrorErr)
}

// removeStaticPod removes what is left of a static pod without a file: its containers, then its mirror.
func (h *Host) removeStaticPod(ctx context.Context, k *Kubelet, mirror *corev1.Pod) error {
	ended, err := h.removeOrphans(ctx, keyOf(mirror), nil)
	if !ended || err != nil {
		return err
	}
	return k.deleteMirror(ctx, mirror)
}

// removeOrphans removes the pods under key other than pod, and reports whether they have ended.
func (h *Host) removeOrphans(ctx context.Context, key objects.Key, pod *corev1.Pod) (bool, error) {
	var err error
	for _, w := range h.orphansOf(key, pod) {
		err = errors.Join(err, w.removeOrphan(ctx))
	}
	return len(h.orphansOf(key, pod)) == 0, err
}

func (h *Host) orphansOf(key objects.Key, pod *corev1.Pod) []*podWorker {
	if pod == nil {
		return h.orphans(key, "")
	}
	return h.orphans(key, pod.UID)
}

// ensureMirror creates the mirror of a static pod, and replaces one that is being deleted or belongs to an earlier content of the file. A
// pod of a client that has the name stays.
func (k *Kubelet) ensureMirror(ctx context.Context, key objects.Key, static *corev1.Pod) error {
	if old, ok := k.host.apiPod(key); ok {
		if mirrors(old, static) || !isMirror(old) {
			return nil
		}
		if err := k.deleteMirror(ctx, old); err != nil {
			return err
		}
	}
	node := k.currentNode()
	mirror := static.DeepCopy()
	mirror.UID, mirror.Status = "", corev1.PodStatus{}
	mirror.Annotations = maps.Clone(static.Annotations)
	mirror.Annotations[configMirror] = static.Annotations[configHash]
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}}
	_, err := k.client.Create(ctx, client.Target{Resource: client.Pods, Namespace: key.Namespace}, mirror, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the watch will show it
	}
	return err
}

// deleteMirror deletes a mirror at once: the node runs the static pod, not the mirror.
func (k *Kubelet) deleteMirror(ctx context.Context, mirror *corev1.Pod) error {
	_, err := k.client.Delete(ctx, client.In(client.Pods, keyOf(mirror)), metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &mirror.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	k.host.statuses.forget(mirror.UID)
	return nil
}
