package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

const (
	defaultAccount = "default"
	tokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolume    = "kube-api-access-"
	// tokenExpiry is an hour and seven seconds. By this lifetime the API server recognises tokens of the volumes that
	// this plugin adds.
	tokenExpiry = 3607
	// enforceSecrets is the annotation of a ServiceAccount whose pods may use only the Secrets that it lists.
	enforceSecrets = "kubernetes.io/enforce-mountable-secrets"

	// accountWait and accountTries bound the wait for the default ServiceAccount, which a controller creates just
	// after the namespace.
	accountWait  = 50 * time.Millisecond
	accountTries = 30
)

// serviceAccount sets the ServiceAccount of a pod, and adds its token and pull secrets.
type serviceAccount struct {
	reader stage.Reader
	src    *clock.Source
	clk    clock.Clock
}

func (serviceAccount) Name() string { return "ServiceAccount" }

func (s serviceAccount) Mutate(ctx context.Context, a *stage.Admission) error {
	pod, ok := podOf(a)
	if !ok || a.Operation != stage.Create {
		return nil
	}
	if isMirror(pod) {
		return mirrorPod(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = pod.Spec.DeprecatedServiceAccount
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := s.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if automount(account, pod) {
		s.mount(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 && len(account.ImagePullSecrets) > 0 {
		pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	return s.Validate(ctx, a)
}

func (s serviceAccount) Validate(ctx context.Context, a *stage.Admission) error {
	if pod, ok := a.Object.(*corev1.Pod); ok && a.Operation == stage.Update && a.Subresource == "ephemeralcontainers" {
		account, err := s.enforced(ctx, a, pod)
		if err != nil || account == nil {
			return err
		}
		return mountableEphemeral(account, pod)
	}
	pod, ok := podOf(a)
	if !ok || a.Operation != stage.Create {
		return nil
	}
	if isMirror(pod) {
		return mirrorPod(a, pod)
	}
	account, err := s.enforced(ctx, a, pod)
	if err != nil || account == nil {
		return err
	}
	if err := mountable(account, pod); err != nil {
		return Forbidden(a, err)
	}
	return nil
}

// enforced returns the ServiceAccount of a pod that may use only its Secrets; nil for other pods.
func (s serviceAccount) enforced(ctx context.Context, a *stage.Admission, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	if pod.Spec.ServiceAccountName == "" {
		return nil, forbid(a, "no service account specified for pod %s/%s", a.Namespace, pod.Name)
	}
	account, err := s.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	if on, _ := strconv.ParseBool(account.Annotations[enforceSecrets]); !on {
		return nil, nil
	}
	return account, nil
}

// mirrorPod checks a mirror pod without changing it: a change would make its node delete it.
func mirrorPod(a *stage.Admission, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return forbid(a, "a mirror pod may not reference service accounts")
	}
	if podref.Any(podref.Secrets(pod)) {
		return forbid(a, "a mirror pod may not reference secrets")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, src := range v.Projected.Sources {
			if src.ServiceAccountToken != nil {
				return forbid(a, "a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

// account returns a ServiceAccount. If the default one does not exist yet, it waits a moment for the controller that
// creates it.
func (s serviceAccount) account(ctx context.Context, a *stage.Admission, name string) (*corev1.ServiceAccount, error) {
	key := objects.Key{Namespace: a.Namespace, Name: name}
	obj, err := s.reader.Get(ctx, serviceAccounts, key)
	for try := 1; apierrors.IsNotFound(err) && name == defaultAccount && try < accountTries; try++ {
		if !clock.YieldTurn(ctx) && clock.Sleep(ctx, clock.Machine(s.clk), accountWait) != nil {
			break
		}
		obj, err = s.reader.Get(ctx, serviceAccounts, key)
	}
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
	}
	if err != nil {
		return nil, forbid(a, "error looking up service account %s/%s: %w", a.Namespace, name, err)
	}
	account, ok := obj.(*corev1.ServiceAccount)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("the service account %s is a %T", key, obj))
	}
	return account, nil
}

func automount(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mount adds the token volume to every container without another mount at its path.
func (s serviceAccount) mount(pod *corev1.Pod) {
	name := ""
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, tokenVolume) {
			name = v.Name
			break
		}
	}
	found := name != ""
	if !found {
		name = tokenVolume + s.src.Suffix(5)
	}
	needed := mountIn(pod.Spec.InitContainers, name)
	needed = mountIn(pod.Spec.Containers, name) || needed
	if needed && !found {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenProjection()},
		})
	}
}

func mountIn(containers []corev1.Container, volume string) (mounted bool) {
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenMountPath }) {
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: tokenMountPath})
		mounted = true
	}
	return mounted
}

func tokenProjection() *corev1.ProjectedVolumeSource {
	mode, expiry := int32(0o644), int64(tokenExpiry)
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expiry}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}

// mountableEphemeral checks ephemeral containers like mountable, with the messages that Kubernetes has for them.
func mountableEphemeral(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	containers := make([]corev1.Container, len(pod.Spec.EphemeralContainers))
	for i := range containers {
		containers[i] = corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
	}
	err := mountableEnv("ephemeral container", containers, account.Name, secretsOf(account))
	if err == nil {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown, Message: err.Error(),
	}}
}

// secretsOf returns a function that reports whether the ServiceAccount lists a Secret.
func secretsOf(account *corev1.ServiceAccount) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == name })
	}
}

// mountable returns an error if a pod uses a Secret that its ServiceAccount does not list.
func mountable(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	listed := secretsOf(account)
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && !listed(v.Secret.SecretName) {
			return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", v.Secret.SecretName, account.Name)
		}
	}
	if err := mountableEnv("init container", pod.Spec.InitContainers, account.Name, listed); err != nil {
		return err
	}
	if err := mountableEnv("container", pod.Spec.Containers, account.Name, listed); err != nil {
		return err
	}
	for i, r := range pod.Spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, r) {
			return fmt.Errorf(`imagePullSecrets[%d].name="%s" is not allowed because service account %s does not reference that imagePullSecret`, i, r.Name, account.Name)
		}
	}
	return nil
}

func mountableEnv(what string, containers []corev1.Container, account string, listed func(string) bool) error {
	for _, c := range containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !listed(e.ValueFrom.SecretKeyRef.Name) {
				return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", what, c.Name, e.Name, e.ValueFrom.SecretKeyRef.Name, account)
			}
		}
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil && !listed(e.SecretRef.Name) {
				return fmt.Errorf("%s %s with envFrom referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", what, c.Name, e.SecretRef.Name, account)
			}
		}
	}
	return nil
}
