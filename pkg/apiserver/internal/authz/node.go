package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

const nodePrefix = "system:node:"

// NodeName returns the node of a kubelet's user. With isNode true and no name, the user is in the nodes' group but its
// name is not that of a node.
func NodeName(info user.Info) (name string, isNode bool) {
	if info == nil {
		return "", false
	}
	name, ok := strings.CutPrefix(info.GetName(), nodePrefix)
	if !ok || !slices.Contains(info.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return name, true
}

// node allows each kubelet what it needs for its own node and for the pods that are bound to it.
type node struct {
	graph *graph
	rules []rbacv1.PolicyRule
}

func newNode(r stage.Reader) node { return node{newGraph(r), nodeRules()} }

var (
	pods            = schema.GroupResource{Resource: "pods"}
	nodes           = schema.GroupResource{Resource: "nodes"}
	secrets         = schema.GroupResource{Resource: "secrets"}
	configMaps      = schema.GroupResource{Resource: "configmaps"}
	claims          = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes         = schema.GroupResource{Resource: "persistentvolumes"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	leases          = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	csiNodes        = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	attachments     = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}
	resourceClaims  = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	resourceSlices  = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
)

const (
	leaseNamespace = "kube-node-lease"
	nodeField      = "spec.nodeName"
)

// Authorize allows or has no opinion, so that another authorizer may still allow.
func (n node) Authorize(ctx context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	name, isNode := NodeName(a.User)
	if !isNode {
		return stage.NoOpinion, "", nil
	}
	if name == "" {
		return stage.NoOpinion, fmt.Sprintf("unknown node for user %q", a.User.GetName()), nil
	}
	if isResource(a) {
		switch a.GVR.GroupResource() {
		case secrets, configMaps:
			return n.read(ctx, name, a)
		case volumes, resourceClaims, attachments:
			return n.get(ctx, name, a)
		case claims:
			if a.Subresource == "status" {
				return n.claimStatus(ctx, name, a)
			}
			return n.get(ctx, name, a)
		case serviceAccounts:
			return n.serviceAccount(ctx, name, a)
		case leases:
			return decide(lease(name, a))
		case csiNodes:
			return decide(csiNode(name, a))
		case resourceSlices:
			return n.slice(ctx, name, a)
		case nodes:
			return decide(ownNode(name, a))
		case pods:
			return n.pod(ctx, name, a)
		}
	}
	if Allowed(n.rules, a) {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, "", nil
}

func decide(ok bool, reason string) (stage.Decision, string, error) {
	if ok {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, reason, nil
}

func (n node) read(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	switch {
	case a.Verb != "get" && a.Verb != "list" && a.Verb != "watch":
		return decide(false, "can only read resources of this type")
	case a.Subresource != "":
		return decide(false, "cannot read subresource")
	case a.Namespace == "":
		return decide(false, "can only read namespaced object of this type")
	}
	return n.related(ctx, name, a)
}

func (n node) get(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	switch {
	case a.Verb != "get":
		return decide(false, "can only get individual resources of this type")
	case a.Subresource != "":
		return decide(false, "cannot get subresource")
	}
	return n.related(ctx, name, a)
}

func (n node) claimStatus(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	if a.Verb != "update" && a.Verb != "patch" {
		return decide(false, "can only get/update/patch this type")
	}
	return n.related(ctx, name, a)
}

func (n node) serviceAccount(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	switch {
	case a.Verb == "get" && a.Subresource == "" && a.Name != "":
	case a.Verb != "create" || a.Name == "":
		return decide(false, "can only create tokens for individual service accounts")
	case a.Subresource != "token":
		return decide(false, "can only create token subresource of serviceaccount")
	}
	return n.related(ctx, name, a)
}

// related allows the request if a pod of the node needs its object.
func (n node) related(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	object := objectName(a)
	if object == "" {
		return decide(false, "No Object name found")
	}
	ok, err := n.graph.reaches(ctx, name, vertex{a.GVR.GroupResource(), a.Namespace, object})
	if ok {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, fmt.Sprintf("no relationship found between node '%s' and this object", name), err
}

func lease(name string, a *stage.Attributes) (bool, string) {
	switch a.Verb {
	case "get", "create", "update", "patch", "delete":
	default:
		return false, "can only get, create, update, patch, or delete a node lease"
	}
	if a.Namespace != leaseNamespace {
		return false, fmt.Sprintf("can only access leases in the %q system namespace", leaseNamespace)
	}
	if a.Verb != "create" && a.Name != name { // admission checks the name of a create
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func csiNode(name string, a *stage.Attributes) (bool, string) {
	switch a.Verb {
	case "get", "create", "update", "patch", "delete":
	default:
		return false, "can only get, create, update, patch, or delete a CSINode"
	}
	if a.Subresource != "" {
		return false, "cannot authorize CSINode subresources"
	}
	if a.Verb != "create" && a.Name != name {
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

// slice allows a node to manage the ResourceSlices that list its devices.
func (n node) slice(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	if a.Subresource != "" {
		return decide(false, "cannot authorize ResourceSlice subresources")
	}
	switch a.Verb {
	case "create":
		return decide(true, "") // admission checks that it is the node's own
	case "get", "update", "patch", "delete":
		return n.related(ctx, name, a)
	case "watch", "list", "deletecollection":
		wanted, ok := exactly(a, nodeField)
		return decide(ok && wanted == name, "can only list/watch/deletecollection resourceslices with nodeName field selector")
	}
	return decide(false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
}

func ownNode(name string, a *stage.Attributes) (bool, string) {
	switch a.Subresource {
	case "":
		switch a.Verb {
		case "create", "update", "patch":
			return true, "" // admission checks that it is the node's own
		case "get", "list", "watch":
			switch object := objectName(a); object {
			case name:
				return true, ""
			case "":
				return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", name)
			default:
				return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", name, object)
			}
		}
	case "status":
		return a.Verb == "update" || a.Verb == "patch", ""
	}
	return false, ""
}

func (n node) pod(ctx context.Context, name string, a *stage.Attributes) (stage.Decision, string, error) {
	switch a.Subresource {
	case "":
		switch a.Verb {
		case "get":
			return n.get(ctx, name, a)
		case "list", "watch":
			if wanted, ok := exactly(a, nodeField); ok && wanted == name {
				return stage.Allow, "", nil
			}
			if objectName(a) != "" {
				return n.related(ctx, name, a)
			}
			return decide(false, "can only list/watch pods with spec.nodeName field selector")
		case "create", "delete":
			return stage.Allow, "", nil // admission checks that it is the node's own mirror pod
		}
	case "status":
		return decide(a.Verb == "update" || a.Verb == "patch", "")
	case "eviction":
		return decide(a.Verb == "create", "")
	}
	return stage.NoOpinion, "", nil
}

// objectName returns the name of the request's only object, which a list or watch selects by field.
func objectName(a *stage.Attributes) string {
	if a.Name != "" {
		return a.Name
	}
	name, _ := exactly(a, "metadata.name")
	return name
}

func exactly(a *stage.Attributes, field string) (string, bool) {
	if a.Fields == nil {
		return "", false
	}
	return a.Fields.RequiresExactMatch(field)
}
