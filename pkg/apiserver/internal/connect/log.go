package connect

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	upstream "github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
)

// log responds with the log of a container, as a body or as messages of a WebSocket; with follow, until the log ends.
func log(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	opts, err := logOptions(r.URL.Query(), to.Name)
	if err != nil {
		return err
	}
	pod, err := k.pod(r.Context(), to.Key)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, opts.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusOK) // an empty log: the pod is not scheduled
		return nil
	}
	u, err := k.kubeletURL(r.Context(), pod, logQuery(opts), "containerLogs", pod.Namespace, pod.Name, container)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: k.to(pod.Spec.NodeName).requests}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := refusal(resp, to.Name); err != nil {
		return err
	}
	if wsstream.IsWebSocketRequest(r) {
		body := bufio.NewReader(resp.Body)                                                                       // returns the end by itself: with bytes, wsstream would drop them
		_ = wsstream.NewReader(body, true, wsstream.NewDefaultReaderProtocols()).Copy(upstream.Hijackable(w), r) // an error is the client's: it has disconnected
		return nil
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	copyFlushing(w, resp.Body, opts.Follow)
	return nil
}

// copyFlushing copies a stream to the client. With flush, each piece is sent at once.
func copyFlushing(w http.ResponseWriter, from io.Reader, flush bool) {
	control := http.NewResponseController(w)
	if flush {
		_ = control.Flush() // the next write fails if the client has disconnected
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			if flush && control.Flush() != nil {
				return
			}
		}
		if err != nil {
			return // the end of the log, or a lost connection
		}
	}
}

// refusal turns an error of the kubelet into the API's error; nil for a log.
func refusal(resp *http.Response, name string) error {
	if resp.StatusCode >= http.StatusOK && resp.StatusCode <= http.StatusPartialContent {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 50<<10))
	if err != nil {
		return err
	}
	text := string(b)
	switch resp.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(fmt.Errorf("%s", text))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(text)
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "", pods, name, text, 0, false)
}

// logOptions decodes and validates the options of a log.
func logOptions(q url.Values, pod string) (*corev1.PodLogOptions, error) {
	p := parser{q: q}
	opts := &corev1.PodLogOptions{
		Container: q.Get("container"), Follow: p.boolean("follow"), Previous: p.boolean("previous"), Timestamps: p.boolean("timestamps"),
		SinceSeconds: p.integer("sinceSeconds"), TailLines: p.integer("tailLines"), LimitBytes: p.integer("limitBytes"),
	}
	if v := q.Get("sinceTime"); v != "" {
		t, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		opts.SinceTime = &metav1.Time{Time: t}
	}
	if v := q.Get("stream"); v != "" {
		opts.Stream = &v
	}
	if p.err != nil {
		return nil, apierrors.NewBadRequest(p.err.Error())
	}
	if errs := checkLog(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, pod, errs)
	}
	return opts, nil
}

func checkLog(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if s := o.Stream; s != nil {
		all := []string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}
		switch {
		case *s != all[0] && *s != all[1] && *s != all[2]:
			errs = append(errs, field.NotSupported(field.NewPath("stream"), *s, all))
		case *s != corev1.LogStreamAll && o.TailLines != nil:
			errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
		}
	}
	return errs
}

// logQuery translates the options to the kubelet's query.
func logQuery(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil && *o.Stream != corev1.LogStreamAll {
		q.Set("stream", *o.Stream)
	}
	return q
}

// parser decodes values of a query and keeps the first error.
type parser struct {
	q   url.Values
	err error
}

func (p *parser) boolean(name string) bool {
	v := p.q[name]
	return len(v) > 0 && v[0] != "0" && v[0] != "false"
}

func (p *parser) integer(name string) *int64 {
	v := p.q.Get(name)
	if v == "" {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil && p.err == nil {
		p.err = err
	}
	return &n
}
