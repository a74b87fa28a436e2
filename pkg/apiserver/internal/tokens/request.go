package tokens

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	defaultExpiry = 3600
	minExpiry     = 600
	maxExpiry     = 1 << 32

	// mountedExpiry is the lifetime that admission requests for the token of every pod. Such a token is valid for longer, for clients
	// that read it only once.
	mountedExpiry  = 3607
	extendedExpiry = 365 * 24 * 60 * 60
)

var requestKind = schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}

// Request issues a token for the ServiceAccount sa (subresource token). It does not change original. Errors are
// *apierrors.StatusError.
func (i *Issuer) Request(ctx context.Context, sa objects.Key, original *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	req := original.DeepCopy()
	req.TypeMeta = metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: requestKind.Kind}
	obj, err := i.reader.Get(ctx, serviceAccounts, sa)
	if err != nil {
		return nil, err
	}
	Default(req)
	if err := checkPlace(req, sa, string(obj.GetUID())); err != nil {
		return nil, err
	}
	if errs := validateRequest(req); len(errs) > 0 {
		return nil, apierrors.NewInvalid(requestKind, "", errs)
	}
	b := bound{Namespace: sa.Namespace, ServiceAccount: ref{Name: sa.Name, UID: string(obj.GetUID())}}
	if err := i.bind(ctx, &b, req.Spec.BoundObjectRef); err != nil {
		return nil, err
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = []string{i.issuer}
	}
	now := i.clk.Now()
	expiry := now.Add(time.Duration(*req.Spec.ExpirationSeconds) * time.Second)
	lasts := expiry
	if b.Pod != nil && *req.Spec.ExpirationSeconds == mountedExpiry && slices.Equal(req.Spec.Audiences, []string{i.issuer}) {
		b.WarnAfter = seconds(expiry.Unix())
		lasts = now.Add(extendedExpiry * time.Second)
	}
	token, err := sign(i.key, i.kid, claims{
		Audience: req.Spec.Audiences, Expiry: seconds(lasts.Unix()), IssuedAt: seconds(now.Unix()), NotBefore: seconds(now.Unix()),
		Issuer: i.issuer, ID: string(uuid.NewUUID()), Subject: Username(sa.Namespace, sa.Name), Kubernetes: b,
	})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	req.Name, req.Namespace, req.UID = sa.Name, sa.Namespace, obj.GetUID()
	req.CreationTimestamp = metav1.NewTime(now)
	req.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(time.Unix(expiry.Unix(), 0))}
	return req, nil
}

// Default sets the default lifetime of a token.
func Default(req *authenticationv1.TokenRequest) {
	if req.Spec.ExpirationSeconds == nil {
		req.Spec.ExpirationSeconds = new(int64(defaultExpiry))
	}
}

func checkPlace(req *authenticationv1.TokenRequest, sa objects.Key, uid string) error {
	if req.Name != "" && req.Name != sa.Name {
		return apierrors.NewInvalid(requestKind, sa.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), req.Name, "must match the service account name if specified"),
		})
	}
	if req.UID != "" && string(req.UID) != uid {
		return apierrors.NewConflict(schema.GroupResource{Group: requestKind.Group, Resource: requestKind.Kind}, sa.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, uid))
	}
	if req.Namespace != "" && req.Namespace != sa.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func validateRequest(req *authenticationv1.TokenRequest) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	switch e := *req.Spec.ExpirationSeconds; {
	case e < minExpiry:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), e, "may not specify a duration less than 10 minutes"))
	case e > maxExpiry:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), e, "may not specify a duration larger than 2^32 seconds"))
	}
	return errs
}

// bind adds the object that a token is bound to.
func (i *Issuer) bind(ctx context.Context, b *bound, to *authenticationv1.BoundObjectReference) error {
	if to == nil {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(to.APIVersion, to.Kind)
	var uid string
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		obj, err := i.reader.Get(ctx, pods, objects.Key{Namespace: b.Namespace, Name: to.Name})
		if err != nil {
			return err
		}
		pod := obj.(*corev1.Pod)
		if pod.Spec.ServiceAccountName != b.ServiceAccount.Name {
			return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", b.ServiceAccount.Name))
		}
		uid = string(pod.UID)
		b.Pod = &ref{Name: pod.Name, UID: uid}
		if pod.Spec.NodeName != "" {
			b.Node = i.nodeOf(ctx, pod)
		}
	case schema.GroupKind{Kind: "Secret"}:
		obj, err := i.reader.Get(ctx, secrets, objects.Key{Namespace: b.Namespace, Name: to.Name})
		if err != nil {
			return err
		}
		uid = string(obj.GetUID())
		b.Secret = &ref{Name: to.Name, UID: uid}
	case schema.GroupKind{Kind: "Node"}:
		obj, err := i.reader.Get(ctx, nodes, objects.Key{Name: to.Name})
		if err != nil {
			return err
		}
		uid = string(obj.GetUID())
		b.Node = &ref{Name: to.Name, UID: uid}
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	if to.UID != "" && string(to.UID) != uid {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, to.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID))
	}
	return nil
}

// nodeOf returns a pod's node, without a UID if the node no longer exists.
func (i *Issuer) nodeOf(ctx context.Context, pod *corev1.Pod) *ref {
	r := &ref{Name: pod.Spec.NodeName}
	if node, err := i.reader.Get(ctx, nodes, objects.Key{Name: r.Name}); err == nil {
		r.UID = string(node.GetUID())
	}
	return r
}
