package scheduler

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	testclock "k8s.io/utils/clock/testing"
)

// TestSuspension checks when an extender that exceeded its time-out is called again: the pauses double up to a minute, and end with a
// call that is fast enough.
func TestSuspension(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(0, 0))
	s := Suspension{clock: c}
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		if s.Active() {
			t.Fatalf("suspended before a call of %v", want)
		}
		s.Observe(true)
		if c.Step(want - 1); !s.Active() {
			t.Fatalf("the suspension of %v ends too early", want)
		}
		c.Step(1)
	}
	s.Observe(false)
	s.Observe(true)
	if c.Step(10 * time.Second); s.Active() {
		t.Error("a fast call does not end the doubling")
	}
}

// offlineExtender returns an extender of a scheduler without a server.
func offlineExtender(t *testing.T, config configv1.Extender, limit time.Duration) *extender {
	m := &setup{sites: []*site{nil}, timeouts: timeouts{limit, limit}, ctx: t.Context()}
	if errs := m.makeExtenders([]configv1.Extender{config}); len(errs) > 0 {
		t.Fatal(utilerrors.NewAggregate(errs))
	}
	return m.extenders[0]
}

// TestExtenderTimeout checks that a call ends with the scheduler's own time-out if that of the extender is longer, and that the next one fails
// without a request.
func TestExtenderTimeout(t *testing.T) {
	requests := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the connection only after this
		requests <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	config := configv1.Extender{URLPrefix: server.URL, PrioritizeVerb: "p", Weight: 1}
	config.HTTPTimeout.Duration = time.Hour
	x := offlineExtender(t, config, time.Millisecond)
	x.clock = testclock.NewFakeClock(time.Unix(0, 0))
	if _, err := x.prioritize(t.Context(), &corev1.Pod{}, nil); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Fatalf("a call that hangs returns %v", err)
	}
	_, err := x.prioritize(t.Context(), &corev1.Pod{}, nil)
	if want := `extender "` + server.URL + `" is suspended: an earlier call has exceeded its time-out`; err == nil || err.Error() != want {
		t.Errorf("the next call returns %v, want %s", err, want)
	}
	if n := len(requests); n > 1 {
		t.Errorf("%d requests, want at most one", n)
	}
}

// TestExtenderEndlessResponse checks that a response that does not end after its JSON value exceeds the time-out, too.
func TestExtenderEndlessResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the connection only after this
		_, _ = io.WriteString(w, "[]")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	x := offlineExtender(t, configv1.Extender{URLPrefix: server.URL, PrioritizeVerb: "p", Weight: 1}, 200*time.Millisecond)
	x.clock = testclock.NewFakeClock(time.Unix(0, 0))
	if _, err := x.prioritize(t.Context(), &corev1.Pod{}, nil); err == nil {
		t.Error("no error")
	}
	if _, err := x.prioritize(t.Context(), &corev1.Pod{}, nil); err == nil || !strings.Contains(err.Error(), "is suspended") {
		t.Errorf("the next call returns %v", err)
	}
}

// TestExtenderEnds checks that the context of the cycle ends a call.
func TestExtenderEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the connection only after this
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	x := offlineExtender(t, configv1.Extender{URLPrefix: server.URL, FilterVerb: "f"}, time.Hour)
	if _, _, _, err := x.filter(ctx, &corev1.Pod{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if x.Active() {
		t.Error("the extender is suspended")
	}
}

// TestExtenderScores checks the sums of scores, and that one that could overflow is an error.
func TestExtenderScores(t *testing.T) {
	x := offlineExtender(t, configv1.Extender{URLPrefix: "http://x", Weight: 1 << 20}, time.Second)
	sums, err := x.sums(extenderv1.HostPriorityList{{Host: "a", Score: 3}, {Host: "b", Score: -1}, {Host: "a", Score: 4}})
	if err != nil || sums["a"] != 7 || sums["b"] != -1 {
		t.Errorf("got %v, %v", sums, err)
	}
	for _, list := range []extenderv1.HostPriorityList{{{Host: "a", Score: 1 << 27}}, {{Host: "a", Score: -1 << 63}}, {{Host: "a", Score: 1 << 26}, {Host: "a", Score: 1 << 26}}} {
		if _, err := x.sums(list); err == nil || !strings.Contains(err.Error(), `extender "http://x" returns an invalid score`) {
			t.Errorf("%v: got %v", list, err)
		}
	}
}

// TestExtenderTLS checks that the files of TLS settings are read with the configuration, and that enableHTTPS alone verifies no server.
func TestExtenderTLS(t *testing.T) {
	m := &setup{sites: []*site{nil}}
	errs := m.makeExtenders([]configv1.Extender{{URLPrefix: "https://x", TLSConfig: &configv1.ExtenderTLSConfig{CAFile: "/nope/ca.crt"}}})
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "extenders[0].tlsConfig: open /nope/ca.crt: no such file") {
		t.Errorf("got %v", errs)
	}
	x := offlineExtender(t, configv1.Extender{URLPrefix: "https://x", EnableHTTPS: true}, time.Second)
	if c := x.transport.TLSClientConfig; c == nil || !c.InsecureSkipVerify {
		t.Errorf("without an authority the server is verified: %+v", c)
	}
}
