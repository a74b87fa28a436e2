package audit

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// open opens a log with a policy of the given YAML.
func open(t *testing.T, rules string) (*Log, *clocktesting.FakeClock, func() []auditv1.Event) {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Policy: filepath.Join(dir, "policy.yaml"), Path: filepath.Join(dir, "logs", "audit.log")}
	if err := os.WriteFile(cfg.Policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(start)
	l, err := Open(cfg, clk, func() types.UID { return "made" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, clk, func() []auditv1.Event {
		t.Helper()
		raw, err := os.ReadFile(cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		var out []auditv1.Event
		for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
			var e auditv1.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out = append(out, e)
		}
		return out
	}
}

// TestRules checks that the first rule that matches a request sets its level.
func TestRules(t *testing.T) {
	l, _, _ := open(t, `omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, users: ["system:kube-proxy"], verbs: [watch], resources: [{group: "", resources: [endpoints, services]}]}
- {level: None, userGroups: ["system:authenticated"], nonResourceURLs: ["/api*", "/version"]}
- {level: Request, resources: [{group: "", resources: [configmaps], resourceNames: [one]}], namespaces: [kube-system]}
- {level: Metadata, resources: [{group: "", resources: [secrets, "pods/log", "*/scale", "nodes/*"]}]}
- {level: RequestResponse, resources: [{group: apps}], omitStages: [ResponseStarted], omitManagedFields: false}
- {level: Metadata, namespaces: [""], verbs: [delete]}
- {level: Request, verbs: [create]}
`)
	anyone := &user.DefaultInfo{Name: "a", Groups: []string{"system:authenticated"}}
	object := func(group, resource, sub, ns, name string) *auditv1.ObjectReference {
		return &auditv1.ObjectReference{APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Namespace: ns, Name: name}
	}
	for name, c := range map[string]struct {
		r    Request
		want string // level, number of omitted stages, whether managedFields are omitted
	}{
		"proxy watches":         {Request{User: &user.DefaultInfo{Name: "system:kube-proxy"}, Verb: "watch", Object: object("", "services", "", "", "")}, ""},
		"others watch":          {Request{User: anyone, Verb: "watch", Object: object("", "services", "", "", "")}, ""},
		"discovery":             {Request{User: anyone, Verb: "get", Path: "/apis/apps"}, ""},
		"discovery, no user":    {Request{Verb: "create", Path: "/apis/apps"}, "Request 1 true"},
		"the map":               {Request{User: anyone, Verb: "get", Object: object("", "configmaps", "", "kube-system", "one")}, "Request 1 true"},
		"another map":           {Request{User: anyone, Verb: "get", Object: object("", "configmaps", "", "kube-system", "two")}, ""},
		"a map elsewhere":       {Request{User: anyone, Verb: "get", Object: object("", "configmaps", "", "default", "one")}, ""},
		"secrets":               {Request{User: anyone, Verb: "create", Object: object("", "secrets", "", "n", "s")}, "Metadata 1 true"},
		"pods":                  {Request{User: anyone, Verb: "get", Object: object("", "pods", "", "n", "p")}, ""},
		"logs":                  {Request{User: anyone, Verb: "get", Object: object("", "pods", "log", "n", "p")}, "Metadata 1 true"},
		"any scale of the core": {Request{User: anyone, Verb: "get", Object: object("", "replicationcontrollers", "scale", "n", "p")}, "Metadata 1 true"},
		"below nodes":           {Request{User: anyone, Verb: "get", Object: object("", "nodes", "status", "", "p")}, "Metadata 1 true"},
		"a group":               {Request{User: anyone, Verb: "get", Object: object("apps", "deployments", "scale", "n", "p")}, "RequestResponse 2 false"},
		"of the cluster":        {Request{User: anyone, Verb: "delete", Object: object("x", "things", "", "", "p")}, "Metadata 1 true"},
		"of a namespace":        {Request{User: anyone, Verb: "delete", Object: object("x", "things", "", "n", "p")}, ""},
	} {
		e := l.Begin(c.r)
		got := ""
		if e.Enabled() {
			got = string(e.event.Level) + " " + string(rune('0'+len(e.omit))) + map[bool]string{true: " true", false: " false"}[e.trims]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestBadPolicies(t *testing.T) {
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for name, c := range map[string]struct{ policy, want string }{
		"no rules":       {head, "loaded illegal policy with 0 rules"},
		"a level":        {head + "rules: [{level: All}]", `Unsupported value: "All"`},
		"no level":       {head + "rules: [{verbs: [get]}]", "rules[0].level: Required value"},
		"a stage":        {head + "omitStages: [Now]\nrules: [{level: None}]", "allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"},
		"a path":         {head + "rules: [{level: None, nonResourceURLs: [api]}]", "must begin with a '/'"},
		"a star":         {head + "rules: [{level: None, nonResourceURLs: ['/a*b']}]", "must be the final character"},
		"both":           {head + "rules: [{level: None, nonResourceURLs: ['/a'], namespaces: [ns]}]", "cannot apply to both"},
		"a group":        {head + "rules: [{level: None, resources: [{group: apps/v1}]}]", "Invalid value"},
		"names alone":    {head + "rules: [{level: None, resources: [{group: apps, resourceNames: [x]}]}]", "requires at least one resource"},
		"another kind":   {"apiVersion: v1\nkind: Pod\n", "no kind"},
		"an old version": {"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n", "no kind"},
		"no YAML":        {"{", "decod"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "policy")
		if err := os.WriteFile(file, []byte(c.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Config{Policy: file, Path: filepath.Join(dir, "log")}, clocktesting.NewFakeClock(start), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Open(Config{Policy: "/nowhere/policy", Path: "-"}, nil, nil); err == nil {
		t.Error("a policy that is not there")
	}
	if _, err := Open(Config{Policy: "p"}, nil, nil); err == nil {
		t.Error("a policy without a log")
	}
	if l, err := Open(Config{}, nil, nil); l != nil || err != nil {
		t.Errorf("nothing: %v, %v", l, err)
	}
}

// TestStages checks the events of each stage.
func TestStages(t *testing.T) {
	l, clk, events := open(t, "rules: [{level: Request}]")
	e := l.Begin(Request{
		ID: "id", Received: start.Add(-time.Second), Verb: "create", URI: "/api/v1/namespaces/n/pods?x=y", Sources: []string{"::1"}, Long: true,
		UserAgent: strings.Repeat("a", 2000), User: &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
		Object: &auditv1.ObjectReference{APIVersion: "v1", Resource: "pods", Namespace: "n"},
	})
	e.Received()
	e.Impersonated(&user.DefaultInfo{Name: "other", Groups: []string{"h"}}, "impersonate:user-info")
	e.Annotate("k", "first")
	e.Annotate("k", "second")
	e.SetRequest(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "2"}}, func() ([]byte, error) { return []byte(`{"kind":"Pod"}`), nil })
	w := e.Writer(httptest.NewRecorder())
	clk.Step(time.Second)
	w.WriteHeader(http.StatusCreated)
	if e.NeedsResponse() {
		t.Error("a response is recorded at the level Request")
	}
	clk.Step(time.Second)
	e.Complete()

	got := events()
	if len(got) != 3 {
		t.Fatalf("%d events", len(got))
	}
	first, last := got[0], got[2]
	if first.Stage != auditv1.StageRequestReceived || !first.StageTimestamp.Equal(&first.RequestReceivedTimestamp) || first.ImpersonatedUser != nil || first.RequestObject != nil || first.ObjectRef.Name != "" {
		t.Errorf("received: %+v", first)
	}
	if got[1].Stage != auditv1.StageResponseStarted || got[1].ResponseStatus.Code != 201 || !got[1].StageTimestamp.Time.Equal(start.Add(time.Second)) {
		t.Errorf("started: %+v", got[1])
	}
	if last.Stage != auditv1.StageResponseComplete || last.AuditID != "id" || last.User.Username != "u" || last.User.Extra["k"][0] != "v" ||
		last.ImpersonatedUser.Username != "other" || last.AuthenticationMetadata.ImpersonationConstraint != "impersonate:user-info" || last.Annotations["k"] != "first" || string(last.RequestObject.Raw) != `{"kind":"Pod"}` ||
		last.ObjectRef.Name != "p" || last.ObjectRef.UID != "2" || last.ObjectRef.Namespace != "n" || last.SourceIPs[0] != "::1" ||
		last.UserAgent != strings.Repeat("a", 1024)+"...TRUNCATED" || last.RequestURI != "/api/v1/namespaces/n/pods?x=y" ||
		last.Kind != "Event" || last.APIVersion != "audit.k8s.io/v1" || !last.StageTimestamp.Time.Equal(start.Add(2*time.Second)) {
		t.Errorf("complete: %+v", last)
	}
}

// TestResponsesAreRecordedOnce checks that the layer that writes the response first records it, in the form that it then has.
func TestResponsesAreRecordedOnce(t *testing.T) {
	l, _, events := open(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse}]")
	e := l.Begin(Request{Verb: "get", Path: "/x"})
	if !e.NeedsResponse() || e.NeedsResponse() {
		t.Error("the response is not recorded exactly once")
	}
	e.SetResponse([]byte(`{"a":1}`), nil)
	e.Code(200)
	e.Code(500) // a second status code has no effect
	e.Complete()
	if got := events(); len(got) != 1 || string(got[0].ResponseObject.Raw) != `{"a":1}` || got[0].ResponseStatus.Code != 200 {
		t.Errorf("%+v", got)
	}
}

func TestPanicsAreRecorded(t *testing.T) {
	l, _, events := open(t, "rules: [{level: Metadata, omitStages: [RequestReceived]}]")
	boom := errors.New("boom")
	func() {
		defer func() {
			p := recover()
			if err, _ := p.(error); !errors.Is(err, boom) {
				t.Errorf("the panic became %v", p)
			}
		}()
		e := l.Begin(Request{Verb: "get", Path: "/x"})
		e.Received()
		end := e.Complete
		defer end()
		panic(boom)
	}()
	got := events()
	if len(got) != 1 || got[0].Stage != auditv1.StagePanic || got[0].ResponseStatus.Code != 500 || got[0].ResponseStatus.Message != "APIServer panic'd: boom" || got[0].AuditID != "made" {
		t.Errorf("%+v", got)
	}
}

// TestRotation checks that a full file is rotated and that only MaxBackups old files are kept.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log", "audit.log")
	l, err := Open(Config{Policy: policy, Path: path, MaxSize: 1, MaxBackups: 1}, clocktesting.NewFakeClock(start), func() types.UID { return "" })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	uri := "/" + strings.Repeat("x", 100<<10)
	for range 35 {
		l.Begin(Request{Verb: "get", URI: uri, Path: "/"}).Received()
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("the log: %v, %v", info, err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		files, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d files", len(files))
		}
		<-time.After(2 * time.Millisecond)
	}
}

// TestNilAndDisabledEntries checks that a silent and a nil entry accept every call.
func TestNilAndDisabledEntries(t *testing.T) {
	for _, e := range []*Entry{nil, {}} {
		e.Received()
		e.Annotate("a", "b")
		e.Impersonated(&user.DefaultInfo{}, "")
		e.SetRequest(nil, func() ([]byte, error) { t.Error("encoded"); return nil, nil })
		e.Status(&metav1.Status{})
		e.Code(200)
		e.Complete()
		if e.NeedsResponse() || e.Bodies() || e.Enabled() {
			t.Error("an entry without a rule records something")
		}
		w := httptest.NewRecorder()
		if e.Writer(w) != http.ResponseWriter(w) {
			t.Error("the writer is another")
		}
	}
}
