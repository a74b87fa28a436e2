package kubelet

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/minikctl/minikctl/pkg/client/review"
)

// handler serves an authorized request about nodes of the host, of which there is at least one.
type handler func(w http.ResponseWriter, r *http.Request, nodes []*Kubelet)

// subresources are the subresources of nodes that allow a request: one of them is enough.
type subresources []string

// callers are the user and the group whose client certificates are authorized without a review.
var callers = struct{ user, group string }{"kube-apiserver-kubelet-client", "system:masters"}

// authorized returns a handler of the requests of clients that have a right to one of the subresources of the nodes in question. The API
// server reviews their tokens and their rights at each request, with the identity of a node.
func (s *Server) authorized(to subresources, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nodes := s.nodesOf(r)
		if len(nodes) == 0 {
			http.Error(w, "no kubelet runs yet", http.StatusServiceUnavailable)
			return
		}
		user, ok, err := review.User(r.Context(), nodes[0].client, r)
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if !isCaller(user) {
			if code, text := authorize(r, nodes, user, to); code != http.StatusOK {
				http.Error(w, text, code)
				return
			}
		}
		h(w, r, nodes)
	})
}

// nodesOf returns the kubelets that a request is about in the order of their names: that of the node whose name is the request's host, else
// all of this process, since they share an address.
func (s *Server) nodesOf(r *http.Request) []*Kubelet {
	if s.host == nil {
		return nil
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	if k := s.host.kubelet(name); k != nil {
		return []*Kubelet{k}
	}
	all := s.host.allKubelets()
	slices.SortFunc(all, func(a, b *Kubelet) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// isCaller reports whether a user needs no review: the API server itself, which must reach the kubelets while it is busy, and administrators.
func isCaller(user authenticationv1.UserInfo) bool {
	return user.Username == callers.user || slices.Contains(user.Groups, callers.group)
}

// authorize reviews the user's right to one of the subresources, and returns 200, or the code and text of the refusal. A request about several nodes needs
// the right to all nodes.
func authorize(r *http.Request, nodes []*Kubelet, user authenticationv1.UserInfo, to subresources) (code int, text string) {
	attributes := authorizationv1.ResourceAttributes{Verb: verbOf(r.Method), Version: "v1", Resource: "nodes"}
	if len(nodes) == 1 {
		attributes.Name = nodes[0].Name
	}
	for _, attributes.Subresource = range to {
		allowed, err := review.Allowed(r.Context(), nodes[0].client, user, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes.DeepCopy()})
		if err != nil {
			return http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)",
				user.Username, attributes.Verb, attributes.Subresource)
		}
		if allowed {
			return http.StatusOK, ""
		}
	}
	return http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", user.Username, attributes.Verb, []string(to))
}

// verbOf returns the verb of authorization by the method of HTTP.
func verbOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}
