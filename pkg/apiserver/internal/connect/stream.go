package connect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"

	upstream "github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/objects"
)

func exec(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	return k.remote(w, r, to, "exec")
}

func attach(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	return k.remote(w, r, to, "attach")
}

// remote connects a client with a process in a container, by exec or attach.
func (k *Kubelets) remote(w http.ResponseWriter, r *http.Request, to Target, what string) error {
	pod, err := k.boundPod(r.Context(), to.Key)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	container, err := containerOf(pod, q.Get("container"))
	if err != nil {
		return err
	}
	u, err := k.kubeletURL(r.Context(), pod, remoteQuery(q), what, pod.Namespace, pod.Name, container)
	if err != nil {
		return err
	}
	return k.tunnel(w, r, u, k.to(pod.Spec.NodeName).streams, to)
}

// remoteQuery translates the options of exec and attach to the kubelet's query.
func remoteQuery(q url.Values) url.Values {
	p := parser{q: q}
	out := url.Values{}
	for _, o := range []struct{ option, kubelet string }{{"stdin", "input"}, {"stdout", "output"}, {"stderr", "error"}, {"tty", "tty"}} {
		if p.boolean(o.option) {
			out.Set(o.kubelet, "1")
		}
	}
	for _, c := range q["command"] {
		out.Add("command", c)
	}
	return out
}

func portForward(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	pod, err := k.boundPod(r.Context(), to.Key)
	if err != nil {
		return err
	}
	q := url.Values{}
	if ports := r.URL.Query()["ports"]; len(ports) > 0 {
		q.Set("port", strings.Join(ports, ","))
	}
	u, err := k.kubeletURL(r.Context(), pod, q, "portForward", pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	return k.tunnel(w, r, u, k.to(pod.Spec.NodeName).streams, to)
}

// boundPod returns a pod that is bound to a node.
func (k *Kubelets) boundPod(ctx context.Context, key objects.Key) (*corev1.Pod, error) {
	pod, err := k.pod(ctx, key)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", key.Name))
	}
	return pod, nil
}

// tunnel passes a request on to the kubelet at u, which must agree to change the protocol, and then copies bytes both ways
// until one side ends or the request's context does.
func (k *Kubelets) tunnel(w http.ResponseWriter, r *http.Request, u *url.URL, through http.RoundTripper, to Target) error {
	out := r.Clone(r.Context())
	out.Host, out.Body, out.ContentLength = u.Host, nil, 0
	for _, h := range []string{"Authorization", "Cookie", "Content-Length", "Transfer-Encoding"} { // the credentials are the API server's
		out.Header.Del(h)
	}
	respond := responder(func(w http.ResponseWriter, _ *http.Request, err error) {
		if _, ok := err.(apierrors.APIStatus); !ok { //nolint:errorlint // the library does not wrap it
			err = apierrors.NewInternalError(err)
		}
		to.Fail(w, r, err)
	})
	utilproxy.NewUpgradeAwareHandler(u, through, false, true, respond).ServeHTTP(upstream.Hijackable(w), out)
	return nil
}

// dialBound connects as dialer does. The connection is closed when ctx ends, because the library that uses it waits for
// the kubelet's response without a context.
func dialBound(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := addr.Dial(dialer)(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}
