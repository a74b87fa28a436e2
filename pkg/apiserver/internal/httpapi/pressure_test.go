package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	testclock "k8s.io/utils/clock/testing"
)

func TestLoadShedding(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now())
	var use memoryInUse
	s := &Handler{memory: &pressure{limit: 1000, clock: clk, read: func() memoryInUse { return use }}}
	served := s.shed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	do := func(method, path, name string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		c := &call{address: parseAddress(r.Method, r.URL), user: &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup}}}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r.WithContext(withCall(r.Context(), c)))
		return w
	}
	const pods = "/api/v1/namespaces/default/pods"
	for _, c := range []struct {
		use                memoryInUse
		method, path, user string
		code               int
	}{
		{memoryInUse{live: 700, held: 890}, "POST", pods, "admin", 200},
		{memoryInUse{live: 760, held: 800}, "POST", pods, "admin", 429},
		{memoryInUse{live: 100, held: 910}, "GET", pods, "admin", 429},
		{memoryInUse{live: 760}, "GET", "/openapi/v2", "admin", 429},
		{memoryInUse{live: 760}, "DELETE", pods + "/a", "admin", 200},
		{memoryInUse{live: 760}, "DELETE", pods, "admin", 429},
		{memoryInUse{live: 760}, "POST", pods, "system:kube-scheduler", 200},
		{memoryInUse{live: 760}, "PATCH", pods + "/a/status", "system:node:n", 200},
		{memoryInUse{live: 760}, "GET", "/readyz", "admin", 200},
		{memoryInUse{live: 760}, "GET", "/metrics", "admin", 200},
	} {
		use = c.use
		clk.Step(time.Second)
		if got := do(c.method, c.path, c.user); got.Code != c.code {
			t.Errorf("%+v: got %d", c, got.Code)
		} else if got.Code == 429 && (got.Header().Get("Retry-After") != "1" || got.Body.String() != "Too many requests, please try again later.\n") {
			t.Errorf("%+v: got %v %q", c, got.Header(), got.Body)
		}
	}
	use = memoryInUse{}
	if got := do("GET", pods, "admin"); got.Code != 429 {
		t.Errorf("got %d within %v, want the last reading", got.Code, pressureEvery)
	}
	clk.Step(pressureEvery)
	if got := do("GET", pods, "admin"); got.Code != 200 {
		t.Errorf("got %d after memory was freed", got.Code)
	}
	s.memory.limit = 0
	use = memoryInUse{live: 1 << 60}
	clk.Step(time.Second)
	if got := do("GET", pods, "admin"); got.Code != 200 {
		t.Errorf("got %d without a limit", got.Code)
	}
}
