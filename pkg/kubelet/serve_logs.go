package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/internal/crilog"
)

// followInterval is the interval at which a followed log is read.
const followInterval = 50 * time.Millisecond

// logs serves the log of a container, with follow as it grows.
func (s *Server) logs(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	t, ok := s.target(w, r, nodes)
	if !ok {
		return
	}
	o, previous, err := logOptions(r.URL.Query(), s.host.machineClock().Now())
	if err != nil {
		writeError(w, err)
		return
	}
	run, err := t.logged(previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.More = func() bool { return t.worker.runs(run) }
	o.Wait = func(ctx context.Context) error { return clock.Sleep(ctx, s.host.machineClock(), followInterval) }
	w.Header().Set("Content-Type", "text/plain")
	out := &flushing{w, http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	_ = out.to.Flush() // a follower receives the headers before the first line
	// An error ends the response: its status is sent already.
	_ = crilog.Copy(r.Context(), t.worker.logPath(t.pod, t.name, run.Attempt), o, out)
}

// flushing flushes after each write.
type flushing struct {
	http.ResponseWriter
	to *http.ResponseController
}

func (f *flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	if err == nil {
		err = f.to.Flush()
	}
	return n, err
}

// runs reports whether one start of a container still runs.
func (w *podWorker) runs(run Container) bool {
	seen, ok := w.seen()
	if !ok {
		return false
	}
	for _, c := range seen.Containers {
		if c.ID == run.ID {
			return c.Running
		}
	}
	return false
}

// logged returns the start of the container whose log is served: the newest, or the one before. If there is no log, the
// error has the message of Kubernetes' kubelet.
func (t target) logged(previous bool) (Container, error) {
	seen, _ := t.worker.seen()
	attempts := seen.attempts(t.name)
	st := anyStatusOf(&t.status, t.name)
	if st == nil {
		return Container{}, fmt.Errorf("container %q in pod %q is not available", t.name, t.pod.Name)
	}
	if previous {
		id := ""
		if st.LastTerminationState.Terminated != nil {
			id = st.LastTerminationState.Terminated.ContainerID
		}
		for _, c := range attempts {
			if id != "" && containerID(c) == id {
				return c, nil
			}
		}
		return Container{}, fmt.Errorf("previous terminated container %q in pod %q not found", t.name, t.pod.Name)
	}
	if len(attempts) > 0 {
		return attempts[0], nil
	}
	if st.State.Terminated != nil && st.State.Terminated.ContainerID != "" {
		return Container{Name: t.name, Attempt: int(st.RestartCount)}, nil // the runtime has lost it, its log exists
	}
	reason := ""
	if st.State.Waiting != nil {
		reason = st.State.Waiting.Reason
	}
	text := fmt.Sprintf("container %q in pod %q is ", t.name, t.pod.Name)
	switch {
	case st.State.Terminated != nil:
		return Container{}, fmt.Errorf("%sterminated", text)
	case reason == "ErrImagePull":
		return Container{}, fmt.Errorf("%swaiting to start: image can't be pulled", text)
	case reason == "ImagePullBackOff":
		return Container{}, fmt.Errorf("%swaiting to start: trying and failing to pull image", text)
	}
	return Container{}, fmt.Errorf("%swaiting to start: %v", text, reason)
}

// logOptions parses the query of a log request.
func logOptions(q url.Values, now time.Time) (o crilog.Options, previous bool, err error) {
	number := func(name string) *int64 {
		v := q.Get(name)
		if v == "" || err != nil {
			return nil
		}
		n, bad := strconv.ParseInt(v, 10, 64)
		if bad != nil || n < 0 {
			err = apierrors.NewBadRequest(fmt.Sprintf("invalid %s: %q", name, v))
			return nil
		}
		return &n
	}
	flag := func(name string) bool {
		v := strings.ToLower(q.Get(name))
		return q.Has(name) && v != "0" && v != "false"
	}
	o = crilog.Options{Tail: number("tailLines"), Follow: flag("follow"), Timestamps: flag("timestamps")}
	if limit := number("limitBytes"); limit != nil {
		o.Limit = *limit
	}
	if seconds := number("sinceSeconds"); seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if v := q.Get("sinceTime"); v != "" && err == nil {
		o.Since, err = time.Parse(time.RFC3339, v)
		if err != nil {
			err = apierrors.NewBadRequest(err.Error())
		}
	}
	switch v := q.Get("stream"); v {
	case "", corev1.LogStreamAll:
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
		o.Stream = strings.ToLower(v)
	default:
		err = apierrors.NewBadRequest(fmt.Sprintf("invalid stream: %q", v))
	}
	return o, flag("previous"), err
}
