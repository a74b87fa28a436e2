package apiregistration

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "apiregistration.k8s.io", Priority: 20001, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
