package core

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// ServiceAccounts is the row of ServiceAccount.
var ServiceAccounts = objects.Def[*corev1.ServiceAccount]{
	Names:          objects.Names{Version: "v1", Kind: "ServiceAccount", Plural: "serviceaccounts", Short: []string{"sa"}},
	ApplyPriority:  120,
	New:            func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} },
	NewList:        func() runtime.Object { return &corev1.ServiceAccountList{} },
	Prepare:        prepareServiceAccount,
	Validate:       validateServiceAccount,
	Warnings:       serviceAccountWarnings,
	Connects:       []string{"token"},
	ReturnsDeleted: true,
}

// prepareServiceAccount drops all but the names of the account's secrets.
func prepareServiceAccount(sa, _ *corev1.ServiceAccount) {
	if len(sa.Secrets) == 0 {
		return
	}
	names := make([]corev1.ObjectReference, len(sa.Secrets)) // the old list may be shared
	for i := range sa.Secrets {
		names[i].Name = sa.Secrets[i].Name
	}
	sa.Secrets = names
}

// serviceAccountWarnings warns about the deprecated annotation enforce-mountable-secrets if it is new.
func serviceAccountWarnings(sa, old *corev1.ServiceAccount) []string {
	const annotation = "kubernetes.io/enforce-mountable-secrets"
	if _, ok := sa.Annotations[annotation]; !ok {
		return nil
	}
	if old != nil {
		if _, had := old.Annotations[annotation]; had {
			return nil
		}
	}
	return []string{"metadata.annotations[" + annotation + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}

func validateServiceAccount(sa, old *corev1.ServiceAccount) field.ErrorList {
	errs := check.Meta(sa, true, apivalidation.ValidateServiceAccountName)
	if old == nil {
		return errs
	}
	return append(check.MetaUpdate(sa, old), errs...)
}
