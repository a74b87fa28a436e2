package minikctl

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: GroupVersion.Group, Priority: 1000, Versions: []objects.GroupVersion{{Version: GroupVersion.Version, Priority: 100}}}
