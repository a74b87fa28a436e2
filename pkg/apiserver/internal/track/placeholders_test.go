package track

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
)

var jobRow = objects.Row(objects.Def[*batchv1.Job]{
	Names:   objects.Names{Group: "batch", Version: "v1", Kind: "Job", Plural: "jobs"},
	New:     func() *batchv1.Job { return new(batchv1.Job) },
	NewList: func() runtime.Object { return new(batchv1.JobList) },
	Status:  &objects.Status[*batchv1.Job]{Reset: []string{"spec"}},
})

// Pods that differ only in their addresses share one shape, and each gets fields for its own addresses.
func TestPodsWithOtherAddressesShareAShape(t *testing.T) {
	b := newBoth()
	ips := func(list ...string) (out []corev1.PodIP) {
		for _, ip := range list {
			out = append(out, corev1.PodIP{IP: ip})
		}
		return out
	}
	for run := range 4 {
		one, two, six := fmt.Sprintf("10.0.0.%d", run), fmt.Sprintf("10.0.1.%d", run), fmt.Sprintf("fd00::%d", run)
		pod := basePod()
		w := Write{Resource: &podRow, Manager: "maker"}
		b.update(t, w, nil, pod)
		pod.UID = types.UID(fmt.Sprint("uid", run))
		for _, list := range [][]corev1.PodIP{ips(one), ips(one), ips(two), ips(two, six), ips(six), nil, ips("not-an-address")} {
			next := pod.DeepCopy()
			next.Status.PodIPs = list
			b.update(t, Write{Resource: &podRow, Manager: "kubelet", Subresource: "status"}, pod, next)
			pod = next
		}
	}
	if b.hits < 3*5 || b.lost > 0 {
		t.Errorf("%d hits, %d lost: pods with other addresses are not known", b.hits, b.lost)
	}
}

// Objects that differ only in the UIDs of their owners, or in one UID of a set, share one shape.
func TestObjectsWithOtherUIDsShareAShape(t *testing.T) {
	b := newBoth()
	uid := func(run, n int) types.UID { return types.UID(fmt.Sprintf("0a03eb77-1f58-4219-895e-%04x%08x", n, run)) }
	for run := range 4 {
		pod := basePod()
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: uid(run, 0)}}
		b.update(t, Write{Resource: &podRow, Manager: "maker"}, nil, pod)
		pod.UID = types.UID(fmt.Sprint("uid", run))
		for _, owners := range [][]int{{0}, {1}, {1, 2}, {2, 1}, {2}, {}, {0}} {
			next := pod.DeepCopy()
			next.OwnerReferences = nil
			for _, n := range owners {
				next.OwnerReferences = append(next.OwnerReferences, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: uid(run, n)})
			}
			next.Labels = map[string]string{"owners": fmt.Sprint(len(owners))}
			b.update(t, Write{Resource: &podRow, Manager: "changer"}, pod, next)
			pod = next
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: types.UID(fmt.Sprint("uid", run)), Namespace: "default"}}
		for _, counted := range [][]int{{0}, {1}, {}, {2}, {2, 0}, {0}, {}} {
			next := job.DeepCopy()
			next.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
			for _, n := range counted {
				next.Status.UncountedTerminatedPods.Succeeded = append(next.Status.UncountedTerminatedPods.Succeeded, uid(run, n))
			}
			b.update(t, Write{Resource: &jobRow, Manager: "controller", Subresource: "status"}, job, next)
			job = next
		}
	}
	if b.hits < 3*(1+2+5) || b.lost > 0 {
		t.Errorf("%d hits, %d lost: objects with other UIDs are not known", b.hits, b.lost)
	}
}
