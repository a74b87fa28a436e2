package certificates

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "certificates.k8s.io", Priority: 17300, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
