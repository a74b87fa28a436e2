package core

import "github.com/minikctl/minikctl/pkg/objects"

// Group is the API group of this package.
var Group = objects.Group{Name: "", Priority: 18000, Versions: []objects.GroupVersion{{Version: "v1", Priority: 1}}}

// EventsGroup is the group in which events are served besides the core group.
var EventsGroup = objects.Group{Name: "events.k8s.io", Priority: 17750, Versions: []objects.GroupVersion{{Version: "v1", Priority: 15}}}
