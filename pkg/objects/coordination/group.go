package coordination

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "coordination.k8s.io", Priority: 16500, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
