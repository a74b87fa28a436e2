package verbs_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
	"github.com/minikctl/minikctl/pkg/trace"
)

// fault is a validator, a store and a receiver of spans that fail while their function is set.
type fault struct {
	store.Store
	validate, write func() error
	span            func()
}

func (*fault) Name() string { return "Fault" }

func (f *fault) Validate(context.Context, *stage.Admission) error {
	if f.validate != nil {
		return f.validate()
	}
	return nil
}

func (f *fault) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	if f.write != nil {
		return nil, f.write()
	}
	return f.Store.Write(ctx, ops...)
}

func (f *fault) onSpan(trace.Span) {
	if f.span != nil {
		f.span()
	}
}

func serveFault(t *testing.T) (*server, *fault) {
	t.Helper()
	f := &fault{Store: memory.New()}
	return serveWith(t, f, func(cfg *verbs.Config) {
		cfg.Stages = func(stage.Reader) stage.Stages { return stage.Stages{Validators: []stage.Validator{f}} }
		cfg.Spans = f.onSpan
	}), f
}

func nodePortService(name, ip string, port int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": name},
		Ports: []corev1.ServicePort{{Port: 80, NodePort: port}},
	}}
	if ip != "" {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = ip, []string{ip}
	}
	return s
}

// attempt calls f and returns its error, or its panic as one.
func attempt(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(errors.New("panic"), p.(error))
		}
	}()
	return f()
}

// TestRollback: an error or a panic between the hooks and the commit releases the address and the node port that the
// hook has reserved.
func TestRollback(t *testing.T) {
	oh := errors.New("oh")
	for name, set := range map[string]func(*fault){
		"validator fails":  func(f *fault) { f.validate = func() error { return oh } },
		"validator panics": func(f *fault) { f.validate = func() error { panic(oh) } },
		"store fails":      func(f *fault) { f.write = func() error { return oh } },
		"store panics":     func(f *fault) { f.write = func() error { panic(oh) } },
	} {
		t.Run(name, func(t *testing.T) {
			s, f := serveFault(t)
			svc := create(t, s, services, nodePortService("a", "10.96.0.7", 30001))
			set(f)
			svc = svc.DeepCopy()
			svc.Spec.Ports[0].NodePort = 30002
			for verb, write := range map[string]func() error{
				"create": func() error { return createService(t, s, nodePortService("b", "10.96.0.8", 30003)) },
				"update": func() error {
					_, err := s.Update(t.Context(), in(services, "a"), svc, metav1.UpdateOptions{})
					return err
				},
			} {
				if err := attempt(write); err == nil {
					t.Errorf("%s succeeds", verb)
				}
			}
			*f = fault{Store: f.Store}
			create(t, s, services, nodePortService("c", "10.96.0.8", 30002))
			create(t, s, services, nodePortService("d", "", 30003))
			wantError(t, createService(t, s, nodePortService("e", "10.96.0.7", 0)), 422, "provided IP is already allocated")
			wantError(t, createService(t, s, nodePortService("e", "", 30001)), 422, "provided port is already allocated")
		})
	}
}

func createService(t *testing.T, c client.Client, svc *corev1.Service) error {
	t.Helper()
	_, err := c.Create(t.Context(), services, svc, metav1.CreateOptions{})
	return err
}

// TestStoredIsNotRolledBack: a panic after the commit leaves a stored Service with its address and frees that of a Service
// that has lost it.
func TestStoredIsNotRolledBack(t *testing.T) {
	s, f := serveFault(t)
	old := create(t, s, services, nodePortService("old", "10.96.0.7", 30001)).DeepCopy()
	f.span = func() { panic(errors.New("oh")) }
	if err := attempt(func() error { return createService(t, s, nodePortService("new", "10.96.0.8", 30003)) }); err == nil {
		t.Error("create returns without the panic")
	}
	old.Spec.Ports[0].NodePort = 30002
	if err := attempt(func() error {
		_, err := s.Update(t.Context(), in(services, "old"), old, metav1.UpdateOptions{})
		return err
	}); err == nil {
		t.Error("update returns without the panic")
	}
	f.span = nil
	wantError(t, createService(t, s, nodePortService("x", "10.96.0.8", 0)), 422, "provided IP is already allocated")
	wantError(t, createService(t, s, nodePortService("x", "", 30002)), 422, "provided port is already allocated")
	create(t, s, services, nodePortService("y", "", 30001))
}
