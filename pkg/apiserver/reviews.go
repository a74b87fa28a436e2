package apiserver

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
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/objects"
)

// reviews lists the questions that the server answers: may somebody do something, what may I do, who am I, whose token is
// this. They are answered by the very authorizers and authenticators that requests pass.
func (s *Server) reviews() map[schema.GroupResource]stage.Review {
	may := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: authorizationv1.GroupName, Resource: resource}
	}
	who := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: authenticationv1.GroupName, Resource: resource}
	}
	return map[schema.GroupResource]stage.Review{
		may("subjectaccessreviews"):      s.reviewAccess,
		may("localsubjectaccessreviews"): s.reviewAccess,
		may("selfsubjectaccessreviews"):  s.reviewAccess,
		may("selfsubjectrulesreviews"):   s.reviewRules,
		who("tokenreviews"):              s.reviewToken,
		who("selfsubjectreviews"):        s.reviewSelf,
	}
}

func (s *Server) reviewAccess(ctx context.Context, a *stage.Attributes, obj objects.Object) (objects.Object, error) {
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

func (s *Server) access(ctx context.Context, who user.Info, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a := &stage.Attributes{User: who, Warn: func(string) {}}
	var problems []string
	if r != nil {
		a.Verb, a.Namespace, a.Name, a.Subresource = r.Verb, r.Namespace, r.Name, r.Subresource
		a.GVR = schema.GroupVersionResource{Group: r.Group, Version: or(r.Version, "*"), Resource: r.Resource}
		a.Fields, problems = selectorsOf(r)
	} else {
		a.Verb, a.Path = n.Verb, n.Path
	}
	d, reason, err := authz.Decide(ctx, s.stages.Authorizers, a)
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

// reviewRules lists what whoever asks may do in a namespace. What a node may do because of its pods is no rule.
func (s *Server) reviewRules(ctx context.Context, a *stage.Attributes, obj objects.Object) (objects.Object, error) {
	asked := obj.(*authorizationv1.SelfSubjectRulesReview)
	if asked.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	rules, err := authz.NewEscalation(s.stages.Authorizers).RulesFor(ctx, a.User, asked.Spec.Namespace)
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

// reviewToken says whose a token is.
func (s *Server) reviewToken(ctx context.Context, _ *stage.Attributes, obj objects.Object) (objects.Object, error) {
	r := obj.(*authenticationv1.TokenReview)
	if r.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	r.Status = authenticationv1.TokenReviewStatus{}
	who, audiences, err := s.ownerOf(ctx, r.Spec.Token, r.Spec.Audiences)
	switch {
	case err != nil:
		r.Status.Error = err.Error()
	case who != nil:
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: audiences, User: stage.UserInfo(who)}
	}
	return r, nil
}

// ownerOf returns whose a token is and for which of the wanted audiences it was made; no user when it is for none of them.
// Only ServiceAccount tokens say whom they are for: all others are for this server.
func (s *Server) ownerOf(ctx context.Context, token string, wanted []string) (user.Info, []string, error) {
	if s.issuer.Ours(token) {
		who, audiences, err := s.issuer.Verify(ctx, token, wanted)
		if err != nil {
			return nil, nil, fmt.Errorf("invalid bearer token, %w", err)
		}
		return authenticated(who), audiences, nil
	}
	if len(wanted) > 0 && !slices.Contains(wanted, tokens.DefaultIssuer) {
		return nil, nil, errors.New("invalid bearer token")
	}
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	who, ok, err := s.authn.Authenticate(r)
	if err != nil || !ok {
		return nil, nil, err
	}
	return who, []string{tokens.DefaultIssuer}, nil
}

// authenticated adds the group of all who are known.
func authenticated(who user.Info) user.Info {
	return &user.DefaultInfo{
		Name: who.GetName(), UID: who.GetUID(), Extra: who.GetExtra(), Groups: append(slices.Clone(who.GetGroups()), user.AllAuthenticated),
	}
}

// reviewSelf says who asks.
func (s *Server) reviewSelf(_ context.Context, a *stage.Attributes, _ objects.Object) (objects.Object, error) {
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(s.clock.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: stage.UserInfo(a.User)},
	}, nil
}
