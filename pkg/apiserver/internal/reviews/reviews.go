// Package reviews evaluates the review resources, which are created and never stored: SubjectAccessReview, TokenReview
// and the like. It uses the same authorizers and authenticators as requests.
package reviews

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Config holds what the reviews depend on. The functions are called for each review.
type Config struct {
	Authorizers func() []stage.Authorizer
	Authn       func() authenticator.Request
	Issuer      func() *tokens.Issuer
	Clock       clock.Clock
}

type reviewer struct{ config Config }

// New returns the function for each kind of review.
func New(cfg Config) map[schema.GroupResource]stage.Review {
	s := reviewer{cfg}
	may := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: authorizationv1.GroupName, Resource: resource}
	}
	authn := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: authenticationv1.GroupName, Resource: resource}
	}
	return map[schema.GroupResource]stage.Review{
		may("subjectaccessreviews"):      s.reviewAccess,
		may("localsubjectaccessreviews"): s.reviewAccess,
		may("selfsubjectaccessreviews"):  s.reviewAccess,
		may("selfsubjectrulesreviews"):   s.reviewRules,
		authn("tokenreviews"):            s.reviewToken,
		authn("selfsubjectreviews"):      s.reviewSelf,
	}
}

func (s reviewer) reviewAccess(ctx context.Context, a *stage.Attributes, obj objects.Object) (objects.Object, error) {
	switch r := obj.(type) {
	case *authorizationv1.SubjectAccessReview:
		r.Status = s.access(ctx, subjectOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.LocalSubjectAccessReview:
		r.Status = s.access(ctx, subjectOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	case *authorizationv1.SelfSubjectAccessReview:
		r.Status = s.access(ctx, a.User, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unexpected object: %T", obj))
	}
	return obj, nil
}

func subjectOf(spec *authorizationv1.SubjectAccessReviewSpec) user.Info {
	extra := map[string][]string{}
	for key, values := range spec.Extra {
		extra[key] = values
	}
	return &user.DefaultInfo{Name: spec.User, Groups: spec.Groups, UID: spec.UID, Extra: extra}
}

func (s reviewer) access(ctx context.Context, info user.Info, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a := &stage.Attributes{User: info, Warn: func(string) {}}
	var problems []string
	if r != nil {
		a.Verb, a.Namespace, a.Name, a.Subresource = r.Verb, r.Namespace, r.Name, r.Subresource
		a.GVR = schema.GroupVersionResource{Group: r.Group, Version: or(r.Version, "*"), Resource: r.Resource}
		a.Fields, problems = selectorsOf(r)
	} else {
		a.Verb, a.Path = n.Verb, n.Path
	}
	d, reason, err := authz.Decide(ctx, s.config.Authorizers(), a)
	if err != nil {
		problems = slices.Insert(problems, 0, err.Error())
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: d == stage.Allow, Denied: d == stage.Deny, Reason: reason, EvaluationError: strings.Join(problems, "; "),
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// reviewRules lists the rules of the user in a namespace. A node's rights from the pods bound to it are not rules.
func (s reviewer) reviewRules(ctx context.Context, a *stage.Attributes, obj objects.Object) (objects.Object, error) {
	rulesReview := obj.(*authorizationv1.SelfSubjectRulesReview)
	if rulesReview.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	rules, err := authz.NewEscalation(s.config.Authorizers()).RulesFor(ctx, a.User, rulesReview.Spec.Namespace)
	out := &authorizationv1.SelfSubjectRulesReview{}
	st := &out.Status
	st.ResourceRules, st.NonResourceRules = []authorizationv1.ResourceRule{}, []authorizationv1.NonResourceRule{}
	for _, r := range rules {
		if len(r.Resources) > 0 {
			st.ResourceRules = append(st.ResourceRules, authorizationv1.ResourceRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
		if len(r.NonResourceURLs) > 0 {
			st.NonResourceRules = append(st.NonResourceRules, authorizationv1.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	if err != nil {
		st.EvaluationError = err.Error()
	}
	if slices.Contains(a.User.GetGroups(), user.NodesGroup) {
		st.Incomplete = true
		st.EvaluationError = strings.TrimPrefix(st.EvaluationError+"; node authorizer does not support user rule resolution", "; ")
	}
	return out, nil
}

// reviewToken returns the user of a token.
func (s reviewer) reviewToken(ctx context.Context, _ *stage.Attributes, obj objects.Object) (objects.Object, error) {
	r := obj.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	r.Status = authenticationv1.TokenReviewStatus{}
	info, audiences, err := s.ownerOf(ctx, r.Spec.Token, r.Spec.Audiences)
	switch {
	case err != nil:
		r.Status.Error = err.Error()
	case info != nil:
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: audiences, User: stage.UserInfo(info)}
	}
	return r, nil
}

// ownerOf returns the user of a token, and those of the wanted audiences for which the token is valid. Without any, it
// returns no user. Only ServiceAccount tokens have audiences; others are valid for this server.
func (s reviewer) ownerOf(ctx context.Context, token string, wanted []string) (user.Info, []string, error) {
	if s.config.Issuer().HasIssuer(token) {
		info, audiences, err := s.config.Issuer().Verify(ctx, token, wanted)
		if err != nil {
			return nil, nil, fmt.Errorf("invalid bearer token, %w", err)
		}
		return authenticated(info), audiences, nil
	}
	if len(wanted) > 0 && !slices.Contains(wanted, tokens.DefaultIssuer) {
		return nil, nil, errors.New("invalid bearer token")
	}
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	auth, ok, err := s.config.Authn().AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, nil, err
	}
	return auth.User, []string{tokens.DefaultIssuer}, nil
}

// authenticated adds the group system:authenticated.
func authenticated(info user.Info) user.Info {
	return &user.DefaultInfo{
		Name: info.GetName(), UID: info.GetUID(), Extra: info.GetExtra(), Groups: append(slices.Clone(info.GetGroups()), user.AllAuthenticated),
	}
}

// reviewSelf returns the user of the request.
func (s reviewer) reviewSelf(_ context.Context, a *stage.Attributes, _ objects.Object) (objects.Object, error) {
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(s.config.Clock.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: stage.UserInfo(a.User)},
	}, nil
}
