// Package authentication holds the rows of the group authentication.k8s.io: reviews of tokens and users. They are not
// stored; the API server responds to their creation.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
)

// TokenReviews is the row of TokenReview.
var TokenReviews = objects.Def[*authenticationv1.TokenReview]{
	Names:    objects.Names{Group: authenticationv1.GroupName, Version: "v1", Kind: "TokenReview", Plural: "tokenreviews", Cluster: true},
	Versions: oldTokenReviews,
	New:      func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
	NewList:  func() runtime.Object { return &authenticationv1.TokenReview{} }, // there is no list type
	Validate: func(_, _ *authenticationv1.TokenReview) field.ErrorList { return nil },
	Verbs:    []string{"create"},
}

// SelfSubjectReviews is the row of SelfSubjectReview.
var SelfSubjectReviews = objects.Def[*authenticationv1.SelfSubjectReview]{
	Names:    objects.Names{Group: authenticationv1.GroupName, Version: "v1", Kind: "SelfSubjectReview", Plural: "selfsubjectreviews", Cluster: true},
	Versions: oldSelfSubjectReviews,
	New:      func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} },
	NewList:  func() runtime.Object { return &authenticationv1.SelfSubjectReview{} },
	Validate: func(_, _ *authenticationv1.SelfSubjectReview) field.ErrorList { return nil },
	Verbs:    []string{"create"},
}
