package resource

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "resource.k8s.io", Priority: 16200, Versions: []objects.GroupVersion{{Version: "v1", Priority: 21}}}
