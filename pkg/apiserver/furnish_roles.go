package apiserver

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// The roles that every cluster begins with, and their bindings, are compiled in, and become objects when somebody first
// asks for their group: a cluster that nobody asks starts without them. Once they are objects, the objects rule. A server
// that starts over them adds what is missing, as Kubernetes does at each start, and not more often: they may be deleted.

// furnishRoles makes the roles and bindings that are missing, and lets them rule.
func (s *Server) furnishRoles(ctx context.Context) error {
	rbac := authz.Of(s.stages.Authorizers)
	if rbac.Settled() {
		return nil
	}
	s.furnishing.Lock()
	defer s.furnishing.Unlock()
	if rbac.Settled() {
		return nil
	}
	var all errgroup.Group
	for _, o := range roleObjects() {
		all.Go(func() error { return s.furnishRole(ctx, o) }) // writes that wait together are committed together
	}
	if err := all.Wait(); err != nil {
		return err
	}
	rbac.Settle()
	return nil
}

// recallRoles is furnishRoles where any of them is an object already.
func (s *Server) recallRoles(ctx context.Context) error {
	count := 0
	for _, resource := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		state, err := s.engine.Reader().State(ctx, schema.GroupResource{Group: rbacv1.GroupName, Resource: resource})
		if err != nil {
			return err
		}
		count += state.Count
	}
	if count == 0 {
		return nil
	}
	for _, o := range roleObjects() {
		err := s.engineHas(ctx, o)
		if err == nil {
			return s.furnishRoles(ctx)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// roleObjects are those that every cluster begins with.
func roleObjects() []systemObject {
	var out []systemObject
	for _, obj := range authz.Defaults() {
		resource := "clusterroles"
		switch obj.(type) {
		case *rbacv1.ClusterRoleBinding:
			resource = "clusterrolebindings"
		case *rbacv1.Role:
			resource = "roles"
		case *rbacv1.RoleBinding:
			resource = "rolebindings"
		}
		out = append(out, systemObject{rbacv1.SchemeGroupVersion.WithResource(resource), obj})
	}
	return out
}

// roleTries is how often a role is looked at again that others write at the same time.
const roleTries = 5

// furnishRole makes an object, or adds to it what it lacks.
func (s *Server) furnishRole(ctx context.Context, o systemObject) error {
	var err error
	for range roleTries {
		if err = s.tryRole(ctx, o); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return fmt.Errorf("reconcile %s %s: %w", o.resource.Resource, o.object.GetName(), err)
}

func (s *Server) tryRole(ctx context.Context, o systemObject) error {
	key := objects.Key{Namespace: o.object.GetNamespace(), Name: o.object.GetName()}
	have, err := s.engine.Reader().Get(ctx, o.resource.GroupResource(), key)
	c, in := s.Client(self, systemAgent), client.Target{Resource: o.resource, Namespace: key.Namespace}
	create := func() error {
		_, err := c.Create(ctx, in, o.object.DeepCopyObject(), metav1.CreateOptions{})
		return err
	}
	switch {
	case apierrors.IsNotFound(err):
		return create()
	case err != nil:
		return err
	}
	next, again := authz.Reconciled(have, o.object)
	at := client.In(o.resource, key)
	switch {
	case again:
		opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.GetUID()))}
		if _, err := c.Delete(ctx, at, opts); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return create()
	case next != nil:
		_, err = c.Update(ctx, at, next, metav1.UpdateOptions{})
		return err
	}
	return nil
}
