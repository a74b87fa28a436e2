package flowcontrol

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "flowcontrol.apiserver.k8s.io", Priority: 16100, Versions: []objects.GroupVersion{{Version: "v1", Priority: 21}}}
