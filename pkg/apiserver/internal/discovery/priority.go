package discovery

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// Priority orders groups, and the versions of a group: the greatest comes first.
type Priority struct{ Group, Version int32 }

// unlisted is the priority of a version that its group does not list.
const unlisted = 1

// custom is the priority of custom resources.
var custom = Priority{1000, 100}

// Registration is the group of the APIServices themselves. It precedes all others and has no APIService.
const Registration = "apiregistration.k8s.io"

// PriorityOf returns the priority of a version that this server serves, and whether its group is compiled in.
func PriorityOf(gv schema.GroupVersion) (p Priority, builtIn bool) {
	for _, g := range builtin.Groups {
		if g.Name != gv.Group {
			continue
		}
		for _, v := range g.Versions {
			if v.Version == gv.Version {
				return Priority{g.Priority, v.Priority}, true
			}
		}
		return Priority{g.Priority, unlisted}, true
	}
	return custom, false
}
