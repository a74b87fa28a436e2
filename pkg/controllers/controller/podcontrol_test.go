package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// cutOff is a Client whose deletes fail, and whose lists show what they have done. Watches do not show it yet.
type cutOff struct {
	client.Client
	failure   error
	live      []objects.Object
	unlisted  error // of lists
	listed    int
	selectors []string
}

func (c *cutOff) Delete(context.Context, client.Target, metav1.DeleteOptions) (runtime.Object, error) {
	return nil, c.failure
}

func (c *cutOff) List(_ context.Context, _ client.Target, opts metav1.ListOptions) (client.List, error) {
	c.listed++
	c.selectors = append(c.selectors, opts.FieldSelector)
	return client.List{Items: c.live}, c.unlisted
}

// TestDeleteWithoutResponse: after a delete whose result is unknown, the cache shows whether the pod is being deleted.
func TestDeleteWithoutResponse(t *testing.T) {
	lost := errors.New("connection reset")
	leaving := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.ResourceVersion = &metav1.Time{Time: noon}, new(int64(30)), "100"
	}
	for _, c := range []struct {
		name    string
		failure error
		live    []objects.Object
		list    error
		fails   bool
		cached  string
		lists   int
	}{
		{"it is being deleted", lost, []objects.Object{runningPod("p", leaving)}, nil, false, "leaving", 1},
		{"it is gone", lost, nil, nil, false, "gone", 1},
		{"another pod has its name", lost, []objects.Object{runningPod("p", func(p *corev1.Pod) { p.UID = "other" })}, nil, false, "gone", 1},
		{"it is not deleted", lost, []objects.Object{runningPod("p", nil)}, nil, true, "running", 1},
		{"there is no connection", lost, nil, lost, true, "running", 1},
		{"the server has failed after it", apierrors.NewInternalError(lost), []objects.Object{runningPod("p", leaving)}, nil, false, "leaving", 1},
		{"the server has refused it", apierrors.NewTooManyRequests("later", 1), []objects.Object{runningPod("p", leaving)}, nil, true, "running", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
				pod, cache := runningPod("p", nil), caches.Pods()
				s.Put(client.Pods, watch.Added, pod)
				cut := &cutOff{Client: s, failure: c.failure, live: c.live, unlisted: c.list}
				ctl := PodControl{Client: cut, Pods: cache, Events: client.NewRecorder(s, clock.Real(), clock.NewSource(1), "test", "")}
				err := ctl.Delete(t.Context(), pod, pod)
				if (err != nil) != c.fails {
					t.Errorf("error %v", err)
				}
				state := "gone"
				if p, ok := cache.Get(KeyOf(pod)); ok && p.DeletionTimestamp != nil {
					state = "leaving"
				} else if ok {
					state = "running"
				}
				if state != c.cached {
					t.Errorf("the cache shows that the pod is %s, want %s", state, c.cached)
				}
				if cut.listed != c.lists || c.lists > 0 && cut.selectors[0] != "metadata.name=p" {
					t.Errorf("%d lists with selectors %v", cut.listed, cut.selectors)
				}
			})
		})
	}
}
