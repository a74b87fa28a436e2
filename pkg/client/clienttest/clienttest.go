// Package clienttest is the test suite of client.Client: every implementation passes it.
package clienttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// stepTimeout bounds the duration of each step.
const stepTimeout = 20 * time.Second

// suite is the client of one case, with its own namespace.
type suite struct {
	*testing.T
	client.Client
	ctx       context.Context
	namespace string
}

// Run runs the suite. new returns an administrator's client of a server with the built-in resources, without
// controllers and kubelets. It may return a client of the same server each time.
func Run(t *testing.T, new func(t *testing.T) client.Client) {
	for name, test := range map[string]func(suite){
		"CreateGet":           testCreateGet,
		"Errors":              testErrors,
		"List":                testList,
		"ListPages":           testListPages,
		"Update":              testUpdate,
		"Patch":               testPatch,
		"Apply":               testApply,
		"Status":              testStatus,
		"Scale":               testScale,
		"Binding":             testBinding,
		"Delete":              testDelete,
		"DeletePreconditions": testDeletePreconditions,
		"DeleteGrace":         testDeleteGrace,
		"DeleteFinalizers":    testDeleteFinalizers,
		"DeleteAll":           testDeleteAll,
		"DryRun":              testDryRun,
		"Watch":               testWatch,
		"WatchSelector":       testWatchSelector,
		"WatchResume":         testWatchResume,
		"WatchInitial":        testWatchInitial,
		"WatchErrors":         testWatchErrors,
		"WatchEnds":           testWatchEnds,
		"Cache":               testCache,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
			t.Cleanup(cancel)
			s := suite{T: t, Client: new(t), ctx: ctx, namespace: "case-" + lower(name)}
			s.prepare()
			test(s)
		})
	}
}

func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// prepare creates the namespace and the ServiceAccount that its pods need.
func (s suite) prepare() {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if _, err := s.Create(s.ctx, client.Target{Resource: client.Namespaces}, ns, metav1.CreateOptions{}); err != nil {
		s.Fatalf("create namespace: %v", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: s.namespace}}
	if _, err := s.Create(s.ctx, s.in(client.ServiceAccounts, ""), account, metav1.CreateOptions{}); err != nil {
		s.Fatalf("create service account: %v", err)
	}
}

func (s suite) in(resource resourceName, name string) client.Target {
	return client.Target{Resource: resource, Namespace: s.namespace, Name: name}
}

func (s suite) maps(name string) client.Target { return s.in(client.ConfigMaps, name) }

func (s suite) configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: labels}, Data: map[string]string{"k": "v"},
	}
}

// create creates obj and returns the server's response.
func create[T objects.Object](s suite, resource resourceName, obj T) T {
	s.Helper()
	out, err := s.Create(s.ctx, s.in(resource, ""), obj, metav1.CreateOptions{})
	return must[T](s, out, err)
}

// must returns the result as a T, or ends the test.
func must[T any](s suite, obj runtime.Object, err error) T {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	out, ok := obj.(T)
	if !ok {
		s.Fatalf("the response is a %T", obj)
	}
	return out
}

func get[T objects.Object](s suite, t client.Target) T {
	s.Helper()
	obj, err := s.Get(s.ctx, t, metav1.GetOptions{})
	return must[T](s, obj, err)
}

// wantError ends the test unless is(err) holds, and checks that err is an API status.
func (s suite) wantError(what string, err error, is func(error) bool) {
	s.Helper()
	if err == nil || !is(err) {
		s.Fatalf("%s: got error %v (%s)", what, err, apierrors.ReasonForError(err))
	}
	if status := (*apierrors.StatusError)(nil); !errors.As(err, &status) {
		s.Fatalf("%s: the error is a %T", what, err)
	}
}

// pod returns a minimal pod.
func (s suite) pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.org/c:1"}}},
	}
}

func names(list []objects.Object) string {
	out := ""
	for _, obj := range list {
		out += fmt.Sprintf("%s ", obj.GetName())
	}
	return out
}
