package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// hooks is a server of webhooks: the handler of each path, and the reviews that it got.
type hooks struct {
	server   *httptest.Server
	mu       sync.Mutex
	received map[string][]*reviewv1.AdmissionRequest
	serve    map[string]func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse
}

func newHooks(t *testing.T) *hooks {
	h := &hooks{received: map[string][]*reviewv1.AdmissionRequest{}, serve: map[string]func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse{}}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review reviewv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("read a review: %v", err)
		}
		h.mu.Lock()
		h.received[r.URL.Path] = append(h.received[r.URL.Path], review.Request)
		serve := h.serve[r.URL.Path]
		h.mu.Unlock()
		if serve == nil {
			http.Error(w, "no such webhook", http.StatusNotFound)
			return
		}
		res := serve(review.Request)
		if res == nil { // never answers: a plain return would send 200 to a client that has closed only its side of the connection
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		res.UID = review.Request.UID
		_ = json.NewEncoder(w).Encode(reviewv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: res})
	}))
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	l, err := net.Listen("tcp", "127.77.0.2:0") // in the range of pods, so that an EndpointSlice may have it
	if err != nil {
		t.Fatal(err)
	}
	_ = h.server.Listener.Close()
	h.server.Listener = l
	h.server.StartTLS()
	t.Cleanup(func() {
		h.server.CloseClientConnections()
		h.server.Close()
	})
	return h
}

// selfSigned returns a certificate for the loopback address and for a Service.
func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hooks"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 77, 0, 2)}, DNSNames: []string{"hooks.default.svc"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (h *hooks) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.TLS.Certificates[0].Certificate[0]})
}

func (h *hooks) config(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{URL: new(h.server.URL + path), CABundle: h.bundle()}
}

func (h *hooks) calls(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.received[path])
}

func (h *hooks) last(t *testing.T, path string) *reviewv1.AdmissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.received[path]
	if len(all) == 0 {
		t.Fatalf("%s was not called", path)
	}
	return all[len(all)-1]
}

func on(resource string, ops ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{Operations: ops, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}
}

func patch(ops string) *reviewv1.AdmissionResponse {
	return &reviewv1.AdmissionResponse{Allowed: true, Patch: []byte(ops), PatchType: new(reviewv1.PatchTypeJSONPatch)}
}

func allow(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
	return &reviewv1.AdmissionResponse{Allowed: true}
}

// warningLog collects the warnings of a client.
type warningLog struct {
	mu   sync.Mutex
	text []string
}

func (w *warningLog) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func addValidating(t *testing.T, c kubernetes.Interface, name string, all ...admissionv1.ValidatingWebhook) {
	t.Helper()
	cfg := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: all}
	for i := range cfg.Webhooks {
		cfg.Webhooks[i].SideEffects = new(admissionv1.SideEffectClassNone)
		if cfg.Webhooks[i].AdmissionReviewVersions == nil {
			cfg.Webhooks[i].AdmissionReviewVersions = []string{"v1"}
		}
	}
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), cfg, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	})
}

func addMutating(t *testing.T, c kubernetes.Interface, name string, all ...admissionv1.MutatingWebhook) {
	t.Helper()
	cfg := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: all}
	for i := range cfg.Webhooks {
		cfg.Webhooks[i].SideEffects = new(admissionv1.SideEffectClassNone)
		cfg.Webhooks[i].AdmissionReviewVersions = []string{"v1"}
	}
	if _, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), cfg, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestValidatingWebhooks(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	warnings := &warningLog{}
	cfg := rest.CopyConfig(e.AdminConfig)
	cfg.WarningHandler = warnings
	c := kubernetes.NewForConfigOrDie(cfg)
	maps := c.CoreV1().ConfigMaps("default")
	h.serve["/deny"] = func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return &reviewv1.AdmissionResponse{Result: &metav1.Status{Message: "not " + r.Name, Code: 422, Reason: metav1.StatusReasonInvalid}, Warnings: []string{"think again"}}
	}
	h.serve["/mute"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse { return &reviewv1.AdmissionResponse{} }
	h.serve["/allow"] = allow
	h.serve["/patch"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse { return patch(`[]`) }
	h.serve["/never"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse { return nil }

	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"hooked": "yes"}}
	for name, s := range map[string]struct {
		hook  admissionv1.ValidatingWebhook
		want  string // "": allowed
		calls int
	}{
		"deny":      {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/deny")}, `admission webhook "w.example.com" denied the request: not m`, 1},
		"mute":      {admissionv1.ValidatingWebhook{Rules: on("configmaps", "*"), ClientConfig: h.config("/mute")}, `admission webhook "w.example.com" denied the request without explanation`, 1},
		"allow":     {admissionv1.ValidatingWebhook{Rules: on("*", "CREATE"), ClientConfig: h.config("/allow")}, "", 1},
		"v1beta1":   {admissionv1.ValidatingWebhook{Rules: on("*", "CREATE"), ClientConfig: h.config("/patch"), AdmissionReviewVersions: []string{"v2", "v1beta1"}}, "", 1},
		"patch":     {admissionv1.ValidatingWebhook{Rules: on("*", "CREATE"), ClientConfig: h.config("/patch")}, `Internal error occurred: failed calling webhook "w.example.com": received invalid webhook response: validating webhook may not return response.patch`, 1},
		"not found": {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/none")}, `Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: the server could not find the requested resource`, 1},
		"ignored":   {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/none"), FailurePolicy: new(admissionv1.Ignore)}, "", 1},
		"timeout": {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/never"), TimeoutSeconds: new(int32(1))},
			`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "` + h.server.URL + `/never?timeout=1s": context deadline exceeded`, 1},
		"other certificates": {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: admissionv1.WebhookClientConfig{URL: new(h.server.URL + "/allow")}},
			`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "` + h.server.URL + `/allow?timeout=10s": tls: failed to verify certificate: x509: certificate signed by unknown authority`, 0},
		"other resource":   {admissionv1.ValidatingWebhook{Rules: on("secrets", "CREATE"), ClientConfig: h.config("/deny")}, "", 0},
		"other operation":  {admissionv1.ValidatingWebhook{Rules: on("configmaps", "DELETE"), ClientConfig: h.config("/deny")}, "", 0},
		"subresource":      {admissionv1.ValidatingWebhook{Rules: on("configmaps/status", "CREATE"), ClientConfig: h.config("/deny")}, "", 0},
		"object selector":  {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/deny"), ObjectSelector: labelled}, "", 0},
		"namespace":        {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/deny"), NamespaceSelector: labelled}, "", 0},
		"condition":        {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/deny"), MatchConditions: []admissionv1.MatchCondition{{Name: "c", Expression: "object.metadata.name != 'm'"}}}, "", 0},
		"condition holds":  {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/deny"), MatchConditions: []admissionv1.MatchCondition{{Name: "c", Expression: "authorizer.group('').resource('pods').check('create').allowed() && request.userInfo.username == 'admin'"}}}, `admission webhook "w.example.com" denied the request: not m`, 1},
		"condition errors": {admissionv1.ValidatingWebhook{Rules: on("configmaps", "CREATE"), ClientConfig: h.config("/deny"), MatchConditions: []admissionv1.MatchCondition{{Name: "c", Expression: "object.none == 1"}}}, `configmaps "m" is forbidden: expression 'object.none == 1' resulted in error: no such key: none`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s.hook.Name = "w.example.com"
			addValidating(t, c, "w", s.hook)
			before := 0
			path := ""
			if s.hook.ClientConfig.URL != nil {
				path = strings.TrimPrefix(*s.hook.ClientConfig.URL, h.server.URL)
				before = h.calls(path)
			}
			_, err := maps.Create(t.Context(), newMap("m"), metav1.CreateOptions{DryRun: []string{"All"}})
			if s.want == "" && err != nil || s.want != "" && (err == nil || err.Error() != s.want) {
				t.Errorf("got  %v\nwant %s", err, s.want)
			}
			if n := h.calls(path) - before; n != s.calls {
				t.Errorf("called %d times, want %d", n, s.calls)
			}
		})
	}
	if !slices.Contains(warnings.text, "think again") {
		t.Errorf("warnings are %q", warnings.text)
	}
}

func TestWebhookReviews(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	h.serve["/all"] = allow
	addValidating(t, c, "all", admissionv1.ValidatingWebhook{Name: "all.example.com", ClientConfig: h.config("/all"), Rules: []admissionv1.RuleWithOperations{
		{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"*/*"}}},
	}})
	deployments := c.AppsV1beta1().Deployments("default") // reviewed as apps/v1
	d := map[string]any{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": map[string]any{"name": "d"}, "spec": map[string]any{
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "x"}}}}}}
	body, _ := json.Marshal(d)
	if err := c.AppsV1beta1().RESTClient().Post().Namespace("default").Resource("deployments").Body(body).SetHeader("Content-Type", "application/json").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	r := h.last(t, "/all")
	var seen appsv1.Deployment
	if err := json.Unmarshal(r.Object.Raw, &seen); err != nil || seen.APIVersion != "apps/v1" || *seen.Spec.Replicas != 1 || seen.Spec.Selector == nil {
		t.Errorf("%v: the object is %s", err, r.Object.Raw)
	}
	if r.Kind.Version != "v1" || r.RequestKind.Version != "v1beta1" || r.RequestResource.Version != "v1beta1" || r.Operation != "CREATE" || r.Name != "d" ||
		r.Namespace != "default" || r.UserInfo.Username != "admin" || *r.DryRun || len(r.OldObject.Raw) > 0 && string(r.OldObject.Raw) != "null" {
		t.Errorf("the review is %+v", r)
	}
	if _, err := c.AppsV1().Deployments("default").Patch(t.Context(), "d", "application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	if r := h.last(t, "/all"); r.SubResource != "scale" || r.Kind.Kind != "Scale" || r.Operation != "UPDATE" ||
		!strings.Contains(string(r.Object.Raw), `"replicas":3`) || !strings.Contains(string(r.OldObject.Raw), `"replicas":1`) {
		t.Errorf("the review of a scale is %+v", r)
	}
	h.serve["/five"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return patch(`[{"op":"replace","path":"/spec/replicas","value":5}]`)
	}
	addMutating(t, c, "five", admissionv1.MutatingWebhook{Name: "five.example.com", Rules: on("deployments/scale", "UPDATE"), ClientConfig: h.config("/five")})
	if _, err := c.AppsV1().Deployments("default").Patch(t.Context(), "d", "application/merge-patch+json", []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	if d, err := c.AppsV1().Deployments("default").Get(t.Context(), "d", metav1.GetOptions{}); err != nil || *d.Spec.Replicas != 5 {
		t.Errorf("%v: a webhook's scale is %d", err, *d.Spec.Replicas)
	}
	if err := deployments.Delete(t.Context(), "d", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r = h.last(t, "/all")
	if r.Operation != "DELETE" || string(r.Object.Raw) != "" && string(r.Object.Raw) != "null" || !strings.Contains(string(r.OldObject.Raw), `"replicas":5`) ||
		!strings.Contains(string(r.Options.Raw), `"DeleteOptions"`) {
		t.Errorf("the review of a delete is %+v", r)
	}
}

func TestMutatingWebhooks(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	rounds := 0
	h.serve["/first"] = func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		var m corev1.ConfigMap
		_ = json.Unmarshal(r.Object.Raw, &m)
		rounds++
		if m.Data["second"] != "" {
			return patch(`[{"op":"add","path":"/data/first","value":"saw second"}]`)
		}
		return patch(`[{"op":"add","path":"/data","value":{"first":"1"}}]`)
	}
	h.serve["/second"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return patch(`[{"op":"add","path":"/data/second","value":"2"}]`)
	}
	h.serve["/bad"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return patch(`[{"op":"remove","path":"/metadata/name"},{"op":"add","path":"/data","value":7}]`)
	}
	addMutating(t, c, "both",
		admissionv1.MutatingWebhook{Name: "first.example.com", ClientConfig: h.config("/first"), Rules: on("configmaps", "CREATE"), ReinvocationPolicy: new(admissionv1.IfNeededReinvocationPolicy)},
		admissionv1.MutatingWebhook{Name: "second.example.com", ClientConfig: h.config("/second"), Rules: on("configmaps", "CREATE")})
	m, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), newMap("m"), metav1.CreateOptions{})
	if err != nil || m.Data["first"] != "saw second" || m.Data["second"] != "2" {
		t.Errorf("%v: data is %v", err, m.Data)
	}
	if rounds != 2 || h.calls("/second") != 1 {
		t.Errorf("the first was called %d times, the second %d times", rounds, h.calls("/second"))
	}
	addMutating(t, c, "wrong", admissionv1.MutatingWebhook{Name: "bad.example.com", ClientConfig: h.config("/bad"), Rules: on("secrets", "CREATE")})
	if _, err := c.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err == nil ||
		!strings.HasPrefix(err.Error(), "Internal error occurred: ") {
		t.Errorf("a patch that makes no Secret: %v", err)
	}
}

// TestWebhookOfService connects to a webhook through a Service: to the pod that the Service selects, with the Service's
// name in TLS.
func TestWebhookOfService(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	h.serve["/hook"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return &reviewv1.AdmissionResponse{Result: &metav1.Status{Message: "by service"}}
	}
	addValidating(t, c, "s", admissionv1.ValidatingWebhook{Name: "s.example.com", Rules: on("configmaps", "CREATE"), ClientConfig: admissionv1.WebhookClientConfig{
		CABundle: h.bundle(), Service: &admissionv1.ServiceReference{Namespace: "default", Name: "hooks", Path: new("/hook")}}})
	create := func() error {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), newMap("m"), metav1.CreateOptions{})
		return err
	}
	failed := `Internal error occurred: failed calling webhook "s.example.com": failed to call webhook: Post "https://hooks.default.svc:443/hook?timeout=10s": `
	if err := create(); err == nil || err.Error() != failed+`services "hooks" not found` {
		t.Errorf("without a service: %v", err)
	}
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(h.server.URL, "https://"))
	number, _ := strconv.Atoi(port) //nolint:staticcheck // new(int32(number)) uses it
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "hooks"},
		Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("https")}}}}
	if _, err := c.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := create(); err == nil || err.Error() != failed+`no endpoints available for service "hooks"` {
		t.Errorf("without endpoints: %v", err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "hooks", Labels: map[string]string{discoveryv1.LabelServiceName: "hooks"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(number))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}},
	}
	slice, err := c.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := create(); err == nil || err.Error() != failed+`no endpoints available for service "hooks"` {
		t.Errorf("without a ready endpoint: %v", err)
	}
	slice.Endpoints[0].Conditions.Ready = new(true)
	if _, err := c.DiscoveryV1().EndpointSlices("default").Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := create(); err == nil || err.Error() != `admission webhook "s.example.com" denied the request: by service` {
		t.Errorf("by the endpoint: %v", err)
	}
	if n := h.calls("/hook"); n != 1 {
		t.Error(fmt.Sprint(n, " calls"))
	}
}

// TestReviewsOfSubresources: an eviction and a token request are creates of their own kinds. Each is reviewed once.
func TestReviewsOfSubresources(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	h.serve["/check"] = allow
	h.serve["/token"] = func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return patch(`[{"op":"replace","path":"/spec/expirationSeconds","value":7200}]`)
	}
	addValidating(t, c, "check", admissionv1.ValidatingWebhook{Name: "check.example.com", Rules: on("pods/eviction", "*"), ClientConfig: h.config("/check")})
	addMutating(t, c, "token", admissionv1.MutatingWebhook{Name: "token.example.com", Rules: on("serviceaccounts/token", "CREATE"), ClientConfig: h.config("/token")})
	accounts := c.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil || *request.Spec.ExpirationSeconds != 7200 {
		t.Errorf("%v: the token is %+v", err, request.Spec)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}); err != nil {
		t.Fatal(err)
	}
	if r := h.last(t, "/check"); h.calls("/check") != 1 || r.Kind.Kind != "Eviction" || r.Operation != "CREATE" || r.SubResource != "eviction" {
		t.Errorf("%d calls, the last %+v", h.calls("/check"), r)
	}
}

// TestReviewOfConnect: the review of an exec has its PodExecOptions, and a webhook can refuse it.
func TestReviewOfConnect(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	h.serve["/exec"] = func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return &reviewv1.AdmissionResponse{Result: &metav1.Status{Message: "no shells"}}
	}
	addValidating(t, c, "exec", admissionv1.ValidatingWebhook{Name: "exec.example.com", Rules: on("pods/exec", "CONNECT"), ClientConfig: h.config("/exec")})
	resp, body := do(t, e, "POST", "/api/v1/namespaces/default/pods/p/exec?command=sh&command=-i&container=c&stdin=true&stdout=1&tty=false", "")
	if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "no shells") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	r := h.last(t, "/exec")
	want := `{"kind":"PodExecOptions","apiVersion":"v1","stdin":true,"stdout":true,"container":"c","command":["sh","-i"]}`
	if r.Operation != "CONNECT" || r.Kind.Kind != "PodExecOptions" || r.SubResource != "exec" || string(r.Object.Raw) != want {
		t.Errorf("the review is %+v of %s", r, r.Object.Raw)
	}
}
