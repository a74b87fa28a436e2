package autoscaling

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "autoscaling", Priority: 17500, Versions: []objects.GroupVersion{{Version: "v2", Priority: 30}, {Version: "v1", Priority: 15}}}
