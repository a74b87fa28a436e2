package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldLeases = []objects.Version[*coordinationv1.Lease]{
		objects.Removed("coordination.k8s.io/v1beta1", "Lease", func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
			func() *coordinationv1beta1.Lease { return &coordinationv1beta1.Lease{} }, func() runtime.Object { return &coordinationv1beta1.LeaseList{} }),
	}
)
