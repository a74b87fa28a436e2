package authentication

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "authentication.k8s.io", Priority: 17700, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
