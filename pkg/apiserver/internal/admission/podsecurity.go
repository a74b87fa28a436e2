package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	reviewv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	security "k8s.io/pod-security-admission/admission"
	securityconfig "k8s.io/pod-security-admission/admission/api"
	securityapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// podSecurity enforces the Pod Security Standard that the namespace's labels name. A namespace without such labels allows
// everything, at the cost of one lookup. The checks are initialised on first use.
type podSecurity struct {
	reader stage.Reader
	checks func() (*security.Admission, error)
}

func newPodSecurity(r stage.Reader) podSecurity {
	p := podSecurity{reader: r}
	p.checks = sync.OnceValues(func() (*security.Admission, error) {
		evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		if err != nil {
			return nil, err
		}
		privileged := securityconfig.PodSecurityDefaults{
			Enforce: "privileged", EnforceVersion: "latest", Warn: "privileged", WarnVersion: "latest", Audit: "privileged", AuditVersion: "latest",
		}
		s := &security.Admission{
			Configuration: &securityconfig.PodSecurityConfiguration{Defaults: privileged},
			Evaluator:     evaluator, Metrics: uncountedChecks{}, PodSpecExtractor: security.DefaultPodSpecExtractor{},
			NamespaceGetter: p, PodLister: p,
		}
		if err := s.CompleteConfiguration(); err != nil {
			return nil, err
		}
		return s, s.ValidateConfiguration()
	})
	return p
}

func (podSecurity) Name() string { return "PodSecurity" }

func (p podSecurity) Validate(ctx context.Context, a *stage.Admission) error {
	if a.Operation != stage.Create && a.Operation != stage.Update {
		return nil
	}
	if gr := a.GVR.GroupResource(); gr == namespaces {
		if !secured(a.Object) && (a.Old == nil || !secured(a.Old)) {
			return nil
		}
	} else if !hasPods(a) {
		return nil
	} else if ns, err := p.GetNamespace(ctx, a.Namespace); err != nil {
		return err
	} else if !secured(ns) {
		if gr == pods && slices.Contains(checkedSubresources, a.Subresource) {
			a.Annotate(securityapi.AuditAnnotationPrefix+securityapi.EnforcedPolicyAnnotationKey, "privileged:latest")
		}
		return nil
	}
	checks, err := p.checks()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	r := checks.Validate(ctx, attributesOf(a))
	for _, w := range r.Warnings {
		a.Warn(w)
	}
	for key, value := range r.AuditAnnotations {
		a.Annotate(securityapi.AuditAnnotationPrefix+key, value)
	}
	if r.Allowed {
		return nil
	}
	return refusal(a, r)
}

// refusal returns the error for a response of the checks that is not allowed.
func refusal(a *stage.Admission, r *reviewv1.AdmissionResponse) error {
	err := apierrors.NewForbidden(a.GVR.GroupResource(), nameOf(a), errors.New("Not allowed by PodSecurity")) //nolint:staticcheck // Kubernetes' words
	if r.Result == nil {
		return err
	}
	if r.Result.Message != "" {
		err.ErrStatus.Message = r.Result.Message
	}
	if r.Result.Reason != "" {
		err.ErrStatus.Reason = r.Result.Reason
	}
	if r.Result.Code != 0 {
		err.ErrStatus.Code = r.Result.Code
	}
	if r.Result.Details != nil {
		err.ErrStatus.Details = r.Result.Details.DeepCopy()
	}
	return err
}

// secured reports whether the namespace has a Pod Security label.
func secured(ns objects.Object) bool {
	for key := range ns.GetLabels() {
		if strings.HasPrefix(key, "pod-security.kubernetes.io/") {
			return true
		}
	}
	return false
}

// checkedSubresources are the subresources of pods that are checked.
var checkedSubresources = []string{"", "ephemeralcontainers", "resize"}

// hasPods reports whether the object is a pod or has a pod template.
func hasPods(a *stage.Admission) bool {
	n := a.Resource.Names.GR()
	return security.DefaultPodSpecExtractor{}.HasPodSpec(n)
}

// attributesOf converts a request to the attributes of the checks, with objects of the stored version.
func attributesOf(a *stage.Admission) securityapi.Attributes {
	n := a.Resource.Names
	var obj, old runtime.Object
	if a.Object != nil {
		obj = a.Object
	}
	if a.Old != nil {
		old = a.Old
	}
	return &securityapi.AttributesRecord{
		Name: a.Name, Namespace: a.Namespace, Kind: n.GVK(), Resource: n.GVR(), Subresource: a.Subresource,
		Operation: reviewv1.Operation(a.Operation), Object: obj, OldObject: old, Username: a.User.GetName(),
	}
}

// GetNamespace implements the checks' namespace getter.
func (p podSecurity) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	obj, err := p.reader.Get(ctx, namespaces, objects.Key{Name: name})
	if err != nil {
		return nil, err
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("the namespace " + name + " is of another type"))
	}
	return ns, nil
}

// ListPods implements the checks' pod lister.
func (p podSecurity) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	all, err := p.reader.List(ctx, pods, namespace)
	if err != nil {
		return nil, err
	}
	return byNamespace[*corev1.Pod](all)[namespace], nil
}

// uncountedChecks discards the library's metrics.
type uncountedChecks struct{}

func (uncountedChecks) RecordEvaluation(metrics.Decision, securityapi.LevelVersion, metrics.Mode, securityapi.Attributes) {
}
func (uncountedChecks) RecordExemption(securityapi.Attributes)   {}
func (uncountedChecks) RecordError(bool, securityapi.Attributes) {}
