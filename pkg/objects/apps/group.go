package apps

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "apps", Priority: 17800, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
