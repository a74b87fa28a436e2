package node

import (
	nodev1 "k8s.io/api/node/v1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldRuntimeClasses = []objects.Version[*nodev1.RuntimeClass]{
		objects.Removed("node.k8s.io/v1beta1", "RuntimeClass", func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{} },
			func() *nodev1beta1.RuntimeClass { return &nodev1beta1.RuntimeClass{} }, func() runtime.Object { return &nodev1beta1.RuntimeClassList{} }),
	}
)
