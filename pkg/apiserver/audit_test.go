package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
)

// auditLog is the log of a server.
type auditLog struct {
	*apiservertest.Env
	t    *testing.T
	path string
}

// newAudited starts a server with a policy of these rules.
func newAudited(t *testing.T, rules string) auditLog {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	return auditLog{apiservertest.New(t, func(c *apiserver.Config) { c.Audit = apiserver.AuditConfig{Policy: policy, Path: path} }), t, path}
}

// find returns the events of a test by URI, in order.
func (l auditLog) find(uri string) []auditv1.Event {
	l.t.Helper()
	raw, err := os.ReadFile(l.path)
	if err != nil {
		l.t.Fatal(err)
	}
	var out []auditv1.Event
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1] // the last line may be incomplete
	for line := range strings.Lines(string(whole)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			l.t.Fatalf("%q: %v", line, err)
		}
		if uri == "" || strings.HasPrefix(e.RequestURI, uri) {
			out = append(out, e)
		}
	}
	return out
}

// wait waits until the log has this number of events for a URI.
func (l auditLog) wait(uri string, n int) []auditv1.Event {
	l.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if got := l.find(uri); len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("not %d events of %s in time: %+v", n, uri, l.find(uri))
		}
		<-time.After(2 * time.Millisecond)
	}
}

func (l auditLog) clients(cfg *rest.Config) *kubernetes.Clientset {
	l.t.Helper()
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	return cs
}

const byKind = `omitStages: [RequestReceived]
rules:
- {level: None, users: ["system:apiserver"]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Request, resources: [{group: "", resources: [serviceaccounts]}]}
- {level: RequestResponse, resources: [{group: "", resources: [configmaps]}], omitManagedFields: true}
- {level: Metadata, nonResourceURLs: ["/version"]}
- {level: Metadata, resources: [{group: "", resources: [pods, pods/exec, events]}]}
`

// TestAuditLevels: an event has what the level of the matching policy rule includes.
func TestAuditLevels(t *testing.T) {
	l := newAudited(t, byKind)
	ctx := testContext(t)
	for _, form := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		ns := map[bool]string{true: "default", false: "kube-public"}[form == "application/json"]
		cfg := rest.CopyConfig(l.AdminConfig)
		cfg.ContentType, cfg.AcceptContentTypes, cfg.UserAgent = form, form, "tester/1"
		cs := l.clients(cfg)
		if _, err := cs.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "hidden-from-logs"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cs.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cs.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		cm, err := cs.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{FieldManager: "me"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cs.CoreV1().ConfigMaps(ns).Patch(ctx, "m", types.ApplyPatchType, []byte("apiVersion: v1\nkind: ConfigMap\ndata: {l: w}\n"), metav1.PatchOptions{FieldManager: "you"}); err != nil {
			t.Fatal(err)
		}
		if _, err := cs.CoreV1().ConfigMaps(ns).Get(ctx, "nothing", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		policy := metav1.DeletePropagationBackground
		if err := cs.CoreV1().ConfigMaps(ns).Delete(ctx, "m", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}

		at := "/api/v1/namespaces/" + ns
		secrets := l.wait(at+"/secrets", 2)
		for _, e := range secrets {
			if e.Level != auditv1.LevelMetadata || e.RequestObject != nil || e.ResponseObject != nil || e.Stage != auditv1.StageResponseComplete {
				t.Errorf("a secret: %+v", e)
			}
		}
		if e := secrets[0]; e.ObjectRef.Name != "s" || e.ResponseStatus.Code != 201 || e.Verb != "create" || e.User.Username != "admin" || e.UserAgent != "tester/1" ||
			e.SourceIPs[0] != "127.0.0.1" || e.Annotations["authorization.k8s.io/decision"] != "allow" {
			t.Errorf("the creation of a secret: %+v", e)
		}
		if e := l.wait(at+"/serviceaccounts", 1)[0]; e.RequestObject == nil || e.ResponseObject != nil || !strings.Contains(string(e.RequestObject.Raw), `"name":"a"`) {
			t.Errorf("an account: %+v", e)
		}
		maps := l.wait(at+"/configmaps", 4)
		var request, response corev1.ConfigMap
		if err := errors.Join(json.Unmarshal(maps[0].RequestObject.Raw, &request), json.Unmarshal(maps[0].ResponseObject.Raw, &response)); err != nil {
			t.Fatal(err)
		}
		if request.Data["k"] != "v" || request.UID != "" || request.Kind != "ConfigMap" || response.UID != cm.UID || response.ManagedFields != nil || len(cm.ManagedFields) == 0 {
			t.Errorf("a map: request %+v, response %+v", request, response)
		}
		if got := string(maps[1].RequestObject.Raw); got != `{"apiVersion":"v1","data":{"l":"w"},"kind":"ConfigMap"}` {
			t.Errorf("a patch in YAML: %s", got)
		}
		if e := maps[2]; e.ResponseStatus.Code != 404 || e.ResponseStatus.Reason != metav1.StatusReasonNotFound || !strings.Contains(string(e.ResponseObject.Raw), `"kind":"Status"`) {
			t.Errorf("a map that is not there: %+v", e)
		}
		if got := string(maps[3].RequestObject.Raw); !strings.Contains(got, `"propagationPolicy":"Background"`) {
			t.Errorf("the options of a delete: %s", got)
		}
	}
	if raw, err := os.ReadFile(l.path); err != nil || strings.Contains(string(raw), "hidden-from-logs") || strings.Contains(string(raw), "aGlkZGVuLWZyb20tbG9ncw") {
		t.Errorf("the log contains a secret: %v", err)
	}
}

// TestAuditTables: an event contains the response that the client gets, before its compression.
func TestAuditTables(t *testing.T) {
	l := newAudited(t, byKind)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.URL+"/api/v1/namespaces/default/configmaps", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	req.Header.Set("Authorization", "Bearer "+apiservertest.AdminToken)
	req.Header.Set("Audit-Id", "mine")
	hc, err := rest.HTTPClientFor(rest.AnonymousClientConfig(l.AdminConfig))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	e := l.wait("/api/v1/namespaces/default/configmaps", 1)[0]
	if string(e.ResponseObject.Raw) != strings.TrimSpace(string(body)) || e.AuditID != "mine" || resp.Header.Get("Audit-Id") != "mine" {
		t.Errorf("response %s, recorded %s of %s", body, e.ResponseObject.Raw, e.AuditID)
	}
}

// TestAuditUsers audits refused, impersonating and unauthenticated users.
func TestAuditUsers(t *testing.T) {
	l := newAudited(t, byKind)
	ctx := testContext(t)
	as := rest.CopyConfig(l.AdminConfig)
	as.Impersonate = rest.ImpersonationConfig{UserName: "dora", Groups: []string{"people"}}
	if _, err := l.clients(as).CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	e := l.wait("/api/v1/namespaces/default/secrets/s", 1)[0]
	if e.User.Username != "admin" || e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != "dora" || e.ImpersonatedUser.Groups[0] != "people" ||
		e.Annotations["authorization.k8s.io/decision"] != "forbid" || e.ResponseStatus.Code != 403 || e.ResponseStatus.Reason != metav1.StatusReasonForbidden {
		t.Errorf("as dora: %+v", e)
	}
	if _, err := l.clients(l.Config("nonsense")).CoreV1().Secrets("kube-public").Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
		t.Fatal(err)
	}
	got := l.wait("/api/v1/namespaces/kube-public/secrets/s", 1)
	if len(got) != 1 || got[0].Stage != auditv1.StageResponseStarted || got[0].User.Username != "" || got[0].ResponseStatus.Code != 401 {
		t.Errorf("no user: %+v", got)
	}
	if _, err := l.clients(l.AdminConfig).ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if e := l.wait("/version", 1)[0]; e.ObjectRef != nil || e.Verb != "get" {
		t.Errorf("the version: %+v", e)
	}
}

// TestAuditOfLongRunning: a long-running request has an event at its start and one at its end.
func TestAuditOfLongRunning(t *testing.T) {
	l := newAudited(t, byKind)
	cs := l.clients(l.AdminConfig)
	ctx, cancel := context.WithCancel(testContext(t))
	w, err := cs.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.wait("/api/v1/namespaces/default/pods?watch=true", 1); len(got) != 1 || got[0].Stage != auditv1.StageResponseStarted || got[0].Verb != "watch" {
		t.Errorf("a watch begins: %+v", got)
	}
	w.Stop()
	cancel()
	if got := l.wait("/api/v1/namespaces/default/pods?watch=true", 2); got[1].Stage != auditv1.StageResponseComplete || got[1].ResponseStatus.Code != 200 {
		t.Errorf("a watch ends: %+v", got)
	}

	ctx = testContext(t)
	if _, err := cs.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	newKubelet(t, l.Env, cs)
	newPod(t, cs, "p", "n1", "c")
	url := cs.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"cat"}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	ex, err := remotecommand.NewSPDYExecutor(l.AdminConfig, "POST", url)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := ex.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: io.Discard}); err != nil || out.String() != "HELLO" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	got := l.wait(url.Path, 2)
	if len(got) != 2 || got[0].Stage != auditv1.StageResponseStarted || got[0].ResponseStatus.Code != 101 || got[1].Stage != auditv1.StageResponseComplete || got[0].ObjectRef.Subresource != "exec" {
		t.Errorf("exec: %+v", got)
	}
}

// TestAuditInProcess: requests of in-process clients are audited like those over HTTP.
func TestAuditInProcess(t *testing.T) {
	l := newAudited(t, byKind)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	node := l.Server.Client(&user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}}, "kubelet")
	maps := client.Target{Resource: client.ConfigMaps, Namespace: "default", Name: "m"}
	if _, err := node.Get(ctx, maps, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	e := l.wait("/api/v1/namespaces/default/configmaps/m", 1)[0]
	if e.User.Username != "system:node:n" || e.Annotations["authorization.k8s.io/decision"] != "forbid" || e.ResponseStatus.Code != 403 ||
		e.UserAgent != "kubelet" || e.AuditID == "" || !strings.Contains(string(e.ResponseObject.Raw), `"reason":"Forbidden"`) {
		t.Errorf("a node: %+v", e)
	}
	admin := l.Env.Client("part")
	if _, err := admin.Create(ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := l.wait("/api/v1/namespaces/default/configmaps", 2)
	if e := got[len(got)-1]; e.ResponseStatus.Code != 201 || e.ObjectRef.Name != "x" || strings.Contains(string(e.ResponseObject.Raw), "managedFields") || !strings.Contains(string(e.ResponseObject.Raw), `"uid"`) {
		t.Errorf("a part creates: %+v", e)
	}
	for _, err := range admin.Watch(ctx, client.Target{Resource: client.Pods}, metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if got := l.wait("/api/v1/pods?watch=true", 2); got[0].Stage != auditv1.StageResponseStarted || got[1].Stage != auditv1.StageResponseComplete {
		t.Errorf("a part watches: %+v", got)
	}
}

// TestAuditConcurrent: concurrent events neither mix nor get lost.
func TestAuditConcurrent(t *testing.T) {
	l := newAudited(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse, verbs: [create], resources: [{group: '', resources: [configmaps]}]}]\n")
	cs := l.clients(l.AdminConfig)
	ctx := testContext(t)
	var all sync.WaitGroup
	const writers, each = 16, 12
	for w := range writers {
		all.Go(func() {
			for i := range each {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d-%d", w, i)}, Data: map[string]string{"k": strings.Repeat("x", 3000)}}
				if _, err := cs.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	names, ids := map[string]bool{}, map[types.UID]bool{}
	for _, e := range l.wait("/api/v1/namespaces/default/configmaps", writers*each) {
		names[e.ObjectRef.Name], ids[e.AuditID] = true, true
	}
	if len(names) != writers*each || len(ids) != len(names) {
		t.Errorf("%d names, %d ids", len(names), len(ids))
	}
}

// TestAuditRecordsAuthorizationReason: an event has the binding that allowed the request.
func TestAuditRecordsAuthorizationReason(t *testing.T) {
	l := newAudited(t, byKind)
	ctx := testContext(t)
	cs := l.clients(l.AdminConfig)
	if _, err := cs.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "bob"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.clients(l.Config(apiservertest.BobToken)).CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	e := l.wait("/api/v1/namespaces/default/pods", 1)[0]
	if got, want := e.Annotations["authorization.k8s.io/reason"], `RBAC: allowed by RoleBinding "r/default" of ClusterRole "view" to User "bob"`; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

// TestAuditOfAdmission: an event has the annotations of webhooks and pod security, and the webhooks' patches if the
// level includes bodies.
func TestAuditOfAdmission(t *testing.T) {
	l := newAudited(t, byKind)
	h, cs, ctx := newHooks(t), l.clients(l.AdminConfig), testContext(t)
	h.serve["/m"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		r := patch(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`)
		r.AuditAnnotations = map[string]string{"said": "something"}
		return r
	}
	addMutating(t, cs, "both", admissionv1.MutatingWebhook{Name: "m.example.com", ClientConfig: h.config("/m"), Rules: on("*", "CREATE")})
	if _, err := cs.CoreV1().ConfigMaps("default").Create(ctx, newMap("m"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for uri, patched := range map[string]string{
		"/api/v1/namespaces/default/configmaps": `{"configuration":"both","webhook":"m.example.com","patch":[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}],"patchType":"JSONPatch"}`,
		"/api/v1/namespaces/default/secrets":    "",
	} {
		got := l.wait(uri, 1)[0].Annotations
		for key, want := range map[string]string{
			"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"both","webhook":"m.example.com","mutated":true}`,
			"patch.webhook.admission.k8s.io/round_0_index_0":    patched,
			"m.example.com/said":                                "something",
		} {
			if got[key] != want {
				t.Errorf("%s: %s: %q, want %q", uri, key, got[key], want)
			}
		}
	}
}
