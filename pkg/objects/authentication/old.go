package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldTokenReviews = []objects.Version[*authenticationv1.TokenReview]{
		objects.Removed("authentication.k8s.io/v1beta1", "TokenReview", func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
			func() *authenticationv1beta1.TokenReview { return &authenticationv1beta1.TokenReview{} }, func() runtime.Object { return &authenticationv1beta1.TokenReview{} }),
	}
	// kubectl 1.27 uses only this version.
	oldSelfSubjectReviews = []objects.Version[*authenticationv1.SelfSubjectReview]{
		objects.Removed("authentication.k8s.io/v1beta1", "SelfSubjectReview", func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} },
			func() *authenticationv1beta1.SelfSubjectReview { return &authenticationv1beta1.SelfSubjectReview{} }, func() runtime.Object { return &authenticationv1beta1.SelfSubjectReview{} }),
	}
)
