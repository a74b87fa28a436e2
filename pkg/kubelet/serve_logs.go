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

// lookAgain is how often a log that is followed is looked at.
const lookAgain = 50 * time.Millisecond

// logs answers with the log of a container, as it grows if that is asked for.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	t, ok := s.target(w, r)
	if !ok {
		return
	}
	o, previous, err := logOptions(r.URL.Query(), s.host.Clock.Now())
	if err != nil {
		refuse(w, err)
		return
	}
	run, err := t.logged(previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.More = func() bool { return t.worker.runs(run) }
	o.Wait = func(ctx context.Context) error { return clock.Sleep(ctx, s.host.Clock, lookAgain) }
	w.Header().Set("Content-Type", "text/plain")
	out := &flushing{w, http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	_ = out.to.Flush() // a follower sees that it is connected
	// What cannot be sent any more, or read, ends the log here.
	_ = crilog.Copy(r.Context(), t.worker.logPath(t.pod, t.name, run.Attempt), o, out)
}

// flushing sends each write at once.
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

// runs reports whether that start of a container may write yet.
func (w *worker) runs(run Container) bool {
	seen, ok := w.view(w.uid)
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

// logged returns the start of a container whose log is asked for, or in a kubelet's words why there is none.
func (t target) logged(previous bool) (Container, error) {
	seen, _ := t.worker.view(t.worker.uid)
	attempts := seen.attempts(t.name)
	st := statusOf(t.status.ContainerStatuses, t.name)
	if st == nil {
		st = statusOf(t.status.InitContainerStatuses, t.name)
	}
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
		return Container{Name: t.name, Attempt: int(st.RestartCount)}, nil // the runtime has forgotten it; its log is there
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

// logOptions reads the options of a log.
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
