// Package admission holds the admission plugins, which see a write before it is validated and committed. They set defaults that
// depend on the cluster (a ServiceAccount, a priority, tolerations) and reject what the cluster's state does not
// allow. Each plugin has the name of its counterpart in Kubernetes.
package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/policy"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/webhook"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
)

// Config holds the dependencies of the plugins.
type Config struct {
	Reader stage.Reader
	Source *clock.Source // generates the names of volumes
	Clock  clock.Clock
	Quota  UpdateQuota // nil: quotas are not enforced
	// Authorizers carry out the authorizer calls of CEL expressions in webhooks and policies.
	Authorizers []stage.Authorizer
	UID         func() types.UID // makes the UIDs of AdmissionReviews; nil: no webhooks are called
	Find        policy.FindKind  // finds the resource of a policy's parameters; nil: no policies are evaluated
}

// New returns the plugins in the order of Kubernetes' default chain. The result has no authorizers.
func New(cfg Config) stage.Stages {
	r := cfg.Reader
	lifecycle := gate{"NamespaceLifecycle", namespaceLifecycle{r}.check}
	limits := newLimitRanger(r)
	accounts := serviceAccount{r, cfg.Source, cfg.Clock}
	restriction := gate{"NodeRestriction", nodeRestriction{r, cfg.Authorizers}.check}
	prio := priority{r}
	classes := runtimeClass{r}
	var out stage.Stages
	out.Mutators = []stage.Mutator{
		lifecycle,
		limits,
		accounts,
		restriction,
		taintNodesByCondition{},
		prio,
		defaultTolerationSeconds{},
		defaultStorageClass{r},
		objectInUse{},
		podGroupInUse{},
		classes,
		defaultIngressClass{r},
		podTopologyLabels{r},
		certificateRequests{cfg.Clock},
		deviceTaints{cfg.Clock},
	}
	out.Validators = []stage.Validator{
		lifecycle,
		limits,
		accounts,
		restriction,
		newPodSecurity(r),
		prio,
		claimResize{r},
		classes,
		certificateApproval{cfg.Authorizers},
		certificateSigning{cfg.Authorizers},
		certificateSubjectRestriction{},
		podGroupWorkload{r},
		nodeDeclaredFeatures{r},
		podResize{r},
		deviceAccess{r, cfg.Authorizers},
	}
	if cfg.Find != nil {
		mutating, validating := policies(cfg)
		out.Mutators = append(out.Mutators, mutating)
		out.Validators = append(out.Validators, paramAccess{cfg.Authorizers, cfg.Find}, validating)
	}
	if cfg.UID != nil {
		mutating, validating := webhooks(cfg)
		out.Mutators = append(out.Mutators, mutating)
		out.Validators = append(out.Validators, mutating, validating)
	}
	if cfg.Quota != nil {
		out.Reservers = []stage.Reserver{newResourceQuota(r, cfg.Quota, cfg.Clock)}
	}
	return out
}

const registration = "admissionregistration.k8s.io"

// policies returns the plugins that evaluate admission policies.
func policies(cfg Config) (policy.Mutating, policy.Validating) {
	config := func(kind string) policy.Config {
		all := derive(cfg.Reader, schema.GroupResource{Group: registration, Resource: kind + "admissionpolicies"}, policy.Compile)
		bindings := derive(cfg.Reader, schema.GroupResource{Group: registration, Resource: kind + "admissionpolicybindings"}, policy.CompileBindings)
		return policy.Config{
			Reader: cfg.Reader, Authorizer: celAuthorizer{cfg.Authorizers}, Find: cfg.Find,
			Policies: func(ctx context.Context) (policy.Policies, error) {
				found, _, err := all.get(ctx)
				return found, err
			},
			Bindings: func(ctx context.Context) (policy.Bindings, error) {
				found, _, err := bindings.get(ctx)
				return found, err
			},
		}
	}
	return policy.Mutating{Config: config("mutating")}, policy.Validating{Config: config("validating")}
}

// webhooks returns the plugins that call admission webhooks.
func webhooks(cfg Config) (webhook.Mutating, webhook.Validating) {
	config := func(resource string) webhook.Config {
		gr := schema.GroupResource{Group: registration, Resource: resource}
		hooks := derive(cfg.Reader, gr, webhook.NewClients(cfg.Reader).Compile)
		return webhook.Config{
			Reader: cfg.Reader, UID: cfg.UID, Authorizer: celAuthorizer{cfg.Authorizers},
			Hooks: func(ctx context.Context) (webhook.Hooks, error) {
				found, _, err := hooks.get(ctx)
				return found, err
			},
		}
	}
	return webhook.Mutating{Config: config("mutatingwebhookconfigurations")}, webhook.Validating{Config: config("validatingwebhookconfigurations")}
}

// gate is a check that does not depend on the object's final form, so it runs before validation: as a Mutator for creates
// and updates, and as a Validator for other operations.
type gate struct {
	name  string
	check func(ctx context.Context, a *stage.Admission) error
}

func (g gate) Name() string { return g.name }

func (g gate) Mutate(ctx context.Context, a *stage.Admission) error { return g.check(ctx, a) }

func (g gate) Validate(ctx context.Context, a *stage.Admission) error {
	if a.Operation == stage.Create || a.Operation == stage.Update {
		return nil
	}
	return g.check(ctx, a)
}

// Forbidden returns the error of a write that is rejected because of err. A StatusError is returned unchanged.
func Forbidden(a *stage.Admission, err error) error {
	if status := new(apierrors.StatusError); errors.As(err, &status) && error(status) == err { //nolint:errorlint // only an unwrapped one
		return err
	}
	return apierrors.NewForbidden(a.GVR.GroupResource(), nameOf(a), err)
}

func forbid(a *stage.Admission, format string, args ...any) error {
	return apierrors.NewForbidden(a.GVR.GroupResource(), nameOf(a), fmt.Errorf(format, args...))
}

// nameOf returns the object's name as error messages show it. Mutators don't know a name that is generated, validators do.
func nameOf(a *stage.Admission) string {
	if a.Name != "" {
		return a.Name
	}
	if a.Object != nil {
		if n := a.Object.GetName(); n != "" {
			return n
		}
		if g := a.Object.GetGenerateName(); g != "" {
			return g
		}
	}
	return "Unknown"
}

var (
	pods            = schema.GroupResource{Resource: "pods"}
	nodes           = schema.GroupResource{Resource: "nodes"}
	namespaces      = schema.GroupResource{Resource: "namespaces"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	leases          = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	csiNodes        = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	runtimeClasses  = schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	limitRanges     = schema.GroupResource{Resource: "limitranges"}
	resourceQuotas  = schema.GroupResource{Resource: "resourcequotas"}
	claims          = schema.GroupResource{Resource: "persistentvolumeclaims"}
	storageClasses  = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}
	ingressClasses  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingressclasses"}
	priorityClasses = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
)

// podOf returns the request's pod; ok is false for other resources and for subresources.
func podOf(a *stage.Admission) (*corev1.Pod, bool) {
	if a.Subresource != "" || a.GVR.GroupResource() != pods {
		return nil, false
	}
	pod, ok := a.Object.(*corev1.Pod)
	return pod, ok
}

// isMirror reports whether a pod is the mirror of a node's static pod.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
