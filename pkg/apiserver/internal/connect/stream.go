package connect

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minikctl/minikctl/pkg/objects"
)

func exec(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	return k.remote(w, r, to.Key, "exec")
}

func attach(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	return k.remote(w, r, to.Key, "attach")
}

// remote connects a client with a program in a container.
func (k *Kubelets) remote(w http.ResponseWriter, r *http.Request, key objects.Key, what string) error {
	pod, err := k.placed(r.Context(), key)
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
	return k.tunnel(w, r, u)
}

// remoteQuery writes the options of exec and attach as the kubelet reads them.
func remoteQuery(q url.Values) url.Values {
	p := parser{q: q}
	out := url.Values{}
	for _, o := range []struct{ ours, theirs string }{{"stdin", "input"}, {"stdout", "output"}, {"stderr", "error"}, {"tty", "tty"}} {
		if p.boolean(o.ours) {
			out.Set(o.theirs, "1")
		}
	}
	for _, c := range q["command"] {
		out.Add("command", c)
	}
	return out
}

func portForward(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	pod, err := k.placed(r.Context(), to.Key)
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
	return k.tunnel(w, r, u)
}

// placed returns a pod that has a node.
func (k *Kubelets) placed(ctx context.Context, key objects.Key) (*corev1.Pod, error) {
	pod, err := k.pod(ctx, key)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", key.Name))
	}
	return pod, nil
}

// tunnel sends r to the kubelet at u and, when it agrees to change the protocol, passes bytes both ways until one side
// has ended.
func (k *Kubelets) tunnel(w http.ResponseWriter, r *http.Request, u *url.URL) error {
	if !upgrades(r) {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: k.tls}
	back, err := dialer.DialContext(r.Context(), "tcp", u.Host)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("error dialing backend: %w", err))
	}
	defer back.Close()
	defer context.AfterFunc(r.Context(), func() { _ = back.Close() })() // a kubelet that does not answer is not waited for
	if err := ask(r, u).Write(back); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("error dialing backend: %w", err))
	}
	reader := bufio.NewReader(back)
	resp, err := http.ReadResponse(reader, r)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("error dialing backend: %w", err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		passRefusal(w, resp)
		return nil
	}
	front, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	defer front.Close()
	if err := writeSwitch(front, resp); err != nil {
		return nil //nolint:nilerr // the client has gone
	}
	join(r.Context(), front, buffered, back, reader)
	return nil
}

func upgrades(r *http.Request) bool {
	for _, line := range r.Header.Values("Connection") {
		for _, token := range strings.Split(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return r.Header.Get("Upgrade") != ""
			}
		}
	}
	return false
}

// ask returns the request to the kubelet: the client's, without its credentials.
func ask(r *http.Request, u *url.URL) *http.Request {
	out := r.Clone(r.Context())
	out.URL, out.Host, out.RequestURI, out.Body, out.ContentLength = u, u.Host, "", nil, 0
	for _, h := range []string{"Authorization", "Cookie", "Content-Length", "Transfer-Encoding"} {
		out.Header.Del(h)
	}
	return out
}

// passRefusal answers what the kubelet answered instead of changing the protocol.
func passRefusal(w http.ResponseWriter, resp *http.Response) {
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, 1<<20)) // what is cut off was an error's text
}

func writeSwitch(w io.Writer, resp *http.Response) error {
	head := &strings.Builder{}
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := resp.Header.Write(head); err != nil {
		return err
	}
	head.WriteString("\r\n")
	_, err := io.WriteString(w, head.String())
	return err
}

// join copies both ways. The end of one direction is passed on; when ctx ends or either side breaks, both are closed.
func join(ctx context.Context, front net.Conn, fromFront io.Reader, back net.Conn, fromBack io.Reader) {
	unlink := context.AfterFunc(ctx, func() {
		_ = front.Close() // ends the copies below
		_ = back.Close()
	})
	defer unlink()
	var both sync.WaitGroup
	both.Go(func() { pass(back, fromFront) })
	both.Go(func() {
		pass(front, fromBack)
		_ = back.Close() // the kubelet has said all: nothing more is for it
		_ = front.Close()
	})
	both.Wait()
}

func pass(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // an error is an end as well
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
