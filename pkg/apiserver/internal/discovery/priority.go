package discovery

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// Priority says where a group stands among the others, and a version among those of its group: the greater comes first.
type Priority struct{ Group, Version int32 }

// oldVersion is that of a version which a group no longer has elsewhere.
const oldVersion = 1

// custom is the priority of custom resources.
var custom = Priority{1000, 100}

// Registration is the group of the APIServices themselves. It stands before all others and has no APIService.
const Registration = "apiregistration.k8s.io"

// PriorityOf returns the priority of a version that this server answers for, and whether its group is compiled in.
func PriorityOf(gv schema.GroupVersion) (p Priority, builtIn bool) {
	if p, ok := priorities[gv]; ok {
		return p, true
	}
	for known, p := range priorities {
		if known.Group == gv.Group {
			return Priority{p.Group, oldVersion}, true
		}
	}
	return custom, false
}

// priorities are those of what is compiled in.
var priorities = map[schema.GroupVersion]Priority{
	{Group: Registration, Version: "v1"}:                   {20001, 15},
	{Group: "", Version: "v1"}:                             {18000, 1},
	{Group: "apps", Version: "v1"}:                         {17800, 15},
	{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
	{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
	{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
	{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
	{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
	{Group: "autoscaling", Version: "v2beta1"}:             {17500, 9},
	{Group: "batch", Version: "v1"}:                        {17400, 15},
	{Group: "batch", Version: "v1beta1"}:                   {17400, 9},
	{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
	{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
	{Group: "networking.k8s.io", Version: "v1beta1"}:       {17200, 9},
	{Group: "policy", Version: "v1"}:                       {17100, 15},
	{Group: "policy", Version: "v1beta1"}:                  {17100, 9},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
	{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
	{Group: "storage.k8s.io", Version: "v1beta1"}:          {16800, 9},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
	{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
	{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
	{Group: "node.k8s.io", Version: "v1beta1"}:             {16300, 9},
	{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
	{Group: "discovery.k8s.io", Version: "v1beta1"}:        {16200, 12},
	{Group: "resource.k8s.io", Version: "v1"}:              {16200, 21},
	{Group: "resource.k8s.io", Version: "v1beta2"}:         {16200, 15},
	{Group: "resource.k8s.io", Version: "v1beta1"}:         {16200, 9},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	{Group: "extensions", Version: "v1beta1"}:              {custom.Group, oldVersion}, // no release has it any more
	minikctl.GroupVersion:                                  custom,
}
