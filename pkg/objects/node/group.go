package node

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "node.k8s.io", Priority: 16300, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}, {Version: "v1beta1", Priority: 9}}}
