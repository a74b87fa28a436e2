package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldSubjectAccessReviews = []objects.Version[*authorizationv1.SubjectAccessReview]{
		objects.Removed("authorization.k8s.io/v1beta1", "SubjectAccessReview", func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
			func() *authorizationv1beta1.SubjectAccessReview { return &authorizationv1beta1.SubjectAccessReview{} }, func() runtime.Object { return &authorizationv1beta1.SubjectAccessReview{} }),
	}
	oldLocalSubjectAccessReviews = []objects.Version[*authorizationv1.LocalSubjectAccessReview]{
		objects.Removed("authorization.k8s.io/v1beta1", "LocalSubjectAccessReview", func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
			func() *authorizationv1beta1.LocalSubjectAccessReview {
				return &authorizationv1beta1.LocalSubjectAccessReview{}
			}, func() runtime.Object { return &authorizationv1beta1.LocalSubjectAccessReview{} }),
	}
	oldSelfSubjectAccessReviews = []objects.Version[*authorizationv1.SelfSubjectAccessReview]{
		objects.Removed("authorization.k8s.io/v1beta1", "SelfSubjectAccessReview", func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
			func() *authorizationv1beta1.SelfSubjectAccessReview {
				return &authorizationv1beta1.SelfSubjectAccessReview{}
			}, func() runtime.Object { return &authorizationv1beta1.SelfSubjectAccessReview{} }),
	}
	oldSelfSubjectRulesReviews = []objects.Version[*authorizationv1.SelfSubjectRulesReview]{
		objects.Removed("authorization.k8s.io/v1beta1", "SelfSubjectRulesReview", func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
			func() *authorizationv1beta1.SelfSubjectRulesReview {
				return &authorizationv1beta1.SelfSubjectRulesReview{}
			}, func() runtime.Object { return &authorizationv1beta1.SelfSubjectRulesReview{} }),
	}
)
