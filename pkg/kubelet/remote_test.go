package kubelet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"k8s.io/streaming/pkg/httpstream"

	corev1 "k8s.io/api/core/v1"
)

// executor returns a client for one of the two protocols.
type executor func(cfg *rest.Config, method, url string) (remotecommand.Executor, error)

func overSPDY(cfg *rest.Config, _, to string) (remotecommand.Executor, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutor(cfg, http.MethodPost, u)
}

// exec runs a command in the pod's container and returns what it wrote.
func (w *cluster) exec(pod string, with executor, input string, cmd ...string) (stdout, stderr string, err error) {
	w.t.Helper()
	req := w.api.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: cmd, Stdin: input != "", Stdout: true, Stderr: true}, scheme.ParameterCodec)
	ex, err := with(w.env.AdminConfig, http.MethodGet, req.URL().String())
	if err != nil {
		w.t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	opts := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
	if input != "" {
		opts.Stdin = strings.NewReader(input)
	}
	err = ex.StreamWithContext(w.t.Context(), opts)
	return out.String(), errOut.String(), err
}

func TestExec(t *testing.T) {
	w := newWhole(t)
	w.create(shell("p", "sleep 100"))
	w.ready("p")
	for name, with := range map[string]executor{"SPDY": overSPDY, "WebSocket": remotecommand.NewWebSocketExecutor} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := w.exec("p", with, "", "sh", "-c", "echo out; echo err >&2")
			if err != nil || out != "out\n" || errOut != "err\n" {
				t.Errorf("got %q, %q and %v", out, errOut, err)
			}
			if out, _, err = w.exec("p", with, "a\nb\n", "cat"); err != nil || out != "a\nb\n" {
				t.Errorf("through cat: got %q and %v", out, err)
			}
			_, _, err = w.exec("p", with, "", "sh", "-c", "exit 42")
			exit, ok := errors.AsType[utilexec.CodeExitError](err)
			if !ok || exit.Code != 42 || err.Error() != "command terminated with exit code 42" {
				t.Errorf("exit 42: got %v", err)
			}
			if _, _, err = w.exec("p", with, "", "/does/not/exist"); err == nil {
				t.Error("a program that does not exist ran")
			}
			big := strings.Repeat("0123456789abcdef", 64<<10)
			if out, _, err = w.exec("p", with, big, "cat"); err != nil || out != big {
				t.Errorf("1 MiB through cat: got %d bytes and %v", len(out), err)
			}
		})
	}
	w.delete("p")
}

func TestPortForward(t *testing.T) {
	w := newWhole(t)
	w.create(web("p", "nginx"))
	w.ready("p")
	rt, upgrader, err := spdy.RoundTripperFor(w.env.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	to := w.api.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("p").SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	// kubectl tries SPDY within a WebSocket first, and falls back to plain SPDY.
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, w.env.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(tunnel, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: rt}, http.MethodPost, to), httpstream.IsUpgradeFailure)
	pf, err := portforward.NewOnAddressesForStreaming(dialer,
		[]string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pf.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := pf.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	w.until("an answer", func() string {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(body), "Hello from pod p") {
			return fmt.Sprintf("got %s and %v", body, err)
		}
		return ""
	})
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.delete("p")
}
