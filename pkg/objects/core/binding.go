package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Bindings is the row of Binding, the predecessor of the subresource pods/binding. It is not stored.
var Bindings = objects.Def[*corev1.Binding]{
	Names:   objects.Names{Version: "v1", Kind: "Binding", Plural: "bindings"},
	New:     func() *corev1.Binding { return &corev1.Binding{} },
	NewList: func() runtime.Object { return &corev1.Binding{} },
	Verbs:   []string{"create"},
}
