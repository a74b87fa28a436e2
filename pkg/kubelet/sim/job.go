package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/objects"
)

// History is the annotation of a Job with what its pods have done, as far as FailTimes and FailFor depend on it. It outlives the pods and
// the daemon, and is written before a container starts.
const History = "minikctl.dev/sim-history"

// jobHistory is the value of History.
type jobHistory struct {
	Since *time.Time `json:"since,omitempty"` // the start of the first pod with FailFor

	// Starts has, by container and pod, how many starts have failed because of FailTimes. They are the first ones in their pod: the start
	// after them is its attempt of this number. Those of earlier pods are added up under "" once there are more than maxPods.
	Starts map[string]map[types.UID]int `json:"starts,omitempty"`
}

// maxPods bounds the pods of a container in a history, since all annotations of a Job may have 256 KiB: these take 42 bytes each.
const maxPods = 1000

// before returns how often a container was started before an attempt in one pod: its earlier starts in all pods of the Job.
func (h jobHistory) before(container string, pod types.UID, attempt int) int {
	count := attempt
	for uid, n := range h.Starts[container] {
		if uid != pod {
			count += n
		}
	}
	return count
}

// add records the attempt of a pod and reports whether it was not recorded yet.
func (h *jobHistory) add(container string, pod types.UID, attempt int) bool {
	if attempt < h.Starts[container][pod] {
		return false
	}
	if h.Starts == nil {
		h.Starts = map[string]map[types.UID]int{}
	}
	if h.Starts[container] == nil {
		h.Starts[container] = map[types.UID]int{}
	}
	h.Starts[container][pod] = attempt + 1
	if len(h.Starts[container]) > maxPods {
		h.addUp(container, pod)
	}
	return true
}

// addUp replaces the pods of a container, except one, by their sum. If one of them still runs and starts the container again, its own starts count twice,
// so that FailTimes is reached earlier.
func (h *jobHistory) addUp(container string, except types.UID) {
	sum := h.before(container, except, 0)
	h.Starts[container] = map[types.UID]int{"": sum, except: h.Starts[container][except]}
}

// jobs records what the pods of Jobs have done. It is safe for concurrent use, also by several processes.
type jobs struct {
	client  client.Client
	machine clock.Clock
}

var jobResource = batchv1.SchemeGroupVersion.WithResource("jobs")

// requestPause is the pause after a request without a usable response.
const requestPause = time.Second

// errNoJob is the error for a pod whose Job is gone.
var errNoJob = errors.New("no such job")

// start returns the history of a Job for a container of one of its pods that starts now, and records the start. It returns errNoJob if
// the Job is gone. While the API server can't be reached it waits. Errors are shown to users.
func (j jobs) start(ctx context.Context, p kubelet.Pod, spec kubelet.ContainerSpec, now time.Time) (history, error) {
	for {
		h, err := j.tryStart(ctx, p, spec, now)
		var status *apierrors.StatusError
		refused := errors.As(err, &status) && status.ErrStatus.Code < 500 && !apierrors.IsTooManyRequests(err)
		switch {
		case apierrors.IsConflict(err): // the Job has changed meanwhile
		case err == nil, ctx.Err() != nil, refused, errors.Is(err, errNoJob), errors.Is(err, errHistory):
			return h, err
		default:
			slog.WarnContext(ctx, "cannot record the start of a simulated container, trying again", "pod", p.Namespace+"/"+p.Name, "err", err)
			if err := clock.Sleep(ctx, j.machine, requestPause); err != nil {
				return history{}, err
			}
		}
	}
}

// errHistory is the error for an annotation that can't be parsed.
var errHistory = errors.New("annotation " + History + " of the job")

func (j jobs) tryStart(ctx context.Context, p kubelet.Pod, spec kubelet.ContainerSpec, now time.Time) (history, error) {
	target := client.In(jobResource, objects.Key{Namespace: p.Namespace, Name: p.OwnerName})
	obj, err := j.client.Get(ctx, target, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && obj.GetUID() != p.OwnerUID {
		return history{}, errNoJob
	}
	if err != nil {
		return history{}, err
	}
	var job jobHistory
	if text, ok := obj.GetAnnotations()[History]; ok {
		if err := json.Unmarshal([]byte(text), &job); err != nil {
			return history{}, fmt.Errorf("%w: %w", errHistory, err)
		}
	}
	changed := false
	h := history{starts: job.before(spec.Name, p.UID, spec.Attempt)}
	if duration(p.Annotations, FailFor, spec.Name, 0) > 0 {
		if job.Since == nil {
			changed, job.Since = true, new(p.Started.UTC())
		}
		h.age = now.Sub(*job.Since)
	}
	if h.starts < number(p.Annotations, FailTimes, spec.Name, 0) && job.add(spec.Name, p.UID, spec.Attempt) {
		changed = true
	}
	if !changed {
		return h, nil
	}
	text, err := json.Marshal(job)
	if err != nil {
		return history{}, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(), "annotations": map[string]string{History: string(text)},
	}})
	if err != nil {
		return history{}, err
	}
	_, err = j.client.Patch(ctx, target, client.Patch{Type: types.MergePatchType, Data: patch}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return history{}, errNoJob
	}
	return h, err
}
