package stocktest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// typed is a cluster with a typed client of one media type.
type typed struct {
	*testing.T
	config *rest.Config
	kube   kubernetes.Interface
}

// TestTyped calls the verbs of the typed client, in each of its media types.
func TestTyped(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			conf := rest.CopyConfig(c.config)
			conf.ContentType, conf.AcceptContentTypes = media, media
			s := typed{t, conf, kubernetes.NewForConfigOrDie(conf)}
			ns, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.objects(ns.Name)
			s.workloads(ns.Name)
			s.access(ns.Name)
			if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the namespace is gone", func(ctx context.Context) error {
				if _, err := s.kube.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("got it: %w", err)
				}
				return nil
			})
		})
	}
}

// objects creates, updates, watches and deletes Secrets.
func (s typed) objects(namespace string) {
	s.Helper()
	ctx, secrets := s.Context(), s.kube.CoreV1().Secrets(namespace)
	must := func(what string, got *corev1.Secret, err error, data string) *corev1.Secret {
		s.Helper()
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		if string(got.Data["k"]) != data {
			s.Errorf("%s: %q, want %q", what, got.Data, data)
		}
		return got
	}
	made, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "1"}}, StringData: map[string]string{"k": "1"},
	}, metav1.CreateOptions{})
	made = must("create", made, err, "1")
	w, err := secrets.Watch(ctx, metav1.ListOptions{LabelSelector: "l=1", ResourceVersion: made.ResourceVersion})
	if err != nil {
		s.Fatal(err)
	}
	defer w.Stop()
	stale := made.DeepCopy()
	made.Data["k"] = []byte("2")
	made, err = secrets.Update(ctx, made, metav1.UpdateOptions{})
	must("update", made, err, "2")
	if _, err := secrets.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		s.Errorf("update of what has changed: %v", err)
	}
	for kind, patch := range map[types.PatchType]string{
		types.StrategicMergePatchType: `{"stringData":{"k":"3"}}`,
		types.MergePatchType:          `{"stringData":{"k":"3"}}`,
		types.JSONPatchType:           `[{"op":"replace","path":"/data/k","value":"Mw=="}]`,
	} {
		got, err := secrets.Patch(ctx, "a", kind, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		must(string(kind), got, err, "3")
	}
	apply := applycorev1.Secret("a", namespace).WithData(map[string][]byte{"k": []byte("4")})
	if _, err := secrets.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "typed"}); !apierrors.IsConflict(err) {
		s.Errorf("apply of another's field: %v", err)
	}
	got, err := secrets.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "typed", Force: true})
	must("apply", got, err, "4")
	page, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "l in (1,2)", FieldSelector: "type=Opaque", Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != "a" {
		s.Errorf("listed %v: %v", page, err)
	}
	if err := secrets.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}); !apierrors.IsConflict(err) {
		s.Errorf("delete of another one: %v", err)
	}
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "l=1"}); err != nil {
		s.Error(err)
	}
	for _, want := range []watch.EventType{watch.Modified, watch.Modified, watch.Deleted} {
		if ev := <-w.ResultChan(); ev.Type != want {
			s.Errorf("watched %v, want %s", ev, want)
		}
	}
}

// workloads runs pods of a Deployment and uses their subresources.
func (s typed) workloads(namespace string) {
	s.Helper()
	ctx, deployments, pods := s.Context(), s.kube.AppsV1().Deployments(namespace), s.kube.CoreV1().Pods(namespace)
	labels := map[string]string{"app": "web"}
	_, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	ready := func(n int32) {
		s.Helper()
		eventually(s.T, fmt.Sprint(n, " replicas are ready"), func(ctx context.Context) error {
			d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
			if err == nil && (d.Status.ReadyReplicas != n || d.Status.Replicas != n) {
				err = fmt.Errorf("status %+v", d.Status)
			}
			return err
		})
	}
	ready(1)
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" {
		s.Fatalf("scale %v: %v", scale, err)
	}
	scale.Spec.Replicas = 2
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	ready(2)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(list.Items) != 2 {
		s.Fatalf("%d pods: %v", len(list.Items), err)
	}
	name := list.Items[0].Name
	eventually(s.T, "the container has logged its port", func(ctx context.Context) error { // it is ready before its program begins
		text, err := pods.GetLogs(name, &corev1.PodLogOptions{TailLines: ptr.To[int64](10)}).DoRaw(ctx)
		if err == nil && !strings.Contains(string(text), "listening on") {
			err = fmt.Errorf("logs %q", text)
		}
		return err
	})
	if err := pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		s.Fatal(err)
	}
	eventually(s.T, "another pod is there for the evicted one", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got the evicted one: %w", err)
		}
		return nil
	})
	ready(2)
}

// access creates reviews of users and rights with the token of a ServiceAccount.
func (s typed) access(namespace string) {
	s.Helper()
	ctx := s.Context()
	account, err := s.kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	token, err := s.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	conf := rest.AnonymousClientConfig(s.config)
	conf.ContentType, conf.AcceptContentTypes, conf.BearerToken = s.config.ContentType, s.config.AcceptContentTypes, token.Status.Token
	reader, user := kubernetes.NewForConfigOrDie(conf), "system:serviceaccount:"+namespace+":reader"
	review, err := reader.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != user || review.Status.UserInfo.UID != string(account.UID) {
		s.Errorf("the token's user is %v: %v", review, err)
	}
	if _, err := reader.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		s.Errorf("secrets for an account without rights: %v", err)
	}
	may, err := s.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "secrets"},
	}}, metav1.CreateOptions{})
	if err != nil || may.Status.Allowed {
		s.Errorf("it may: %v, %v", may, err)
	}
}
