package scheduling

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "scheduling.k8s.io", Priority: 16600, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
