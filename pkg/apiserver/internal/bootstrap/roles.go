package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

var (
	clusterRoles        = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	clusterRoleBindings = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
	roles               = rbacv1.SchemeGroupVersion.WithResource("roles")
	roleBindings        = rbacv1.SchemeGroupVersion.WithResource("rolebindings")

	roleResources = []schema.GroupVersionResource{clusterRoles, clusterRoleBindings, roles, roleBindings}
)

// RolesChanged reports whether any role or binding has been written. Until then the compiled-in roles are all there are.
// An error of the store counts as a change.
func (b *Bootstrap) RolesChanged(ctx context.Context) bool {
	for _, gvr := range roleResources {
		if stored, err := b.store.isStored(ctx, gvr.GroupResource()); stored || err != nil {
			return true
		}
	}
	return false
}

// rolesOf returns the default roles or bindings of one resource.
func (b *Bootstrap) rolesOf(gvr schema.GroupVersionResource) []virtual {
	var out []virtual
	for _, obj := range authz.Defaults(b.config.Features) {
		if roleResource(obj) == gvr {
			out = append(out, virtual{object: obj})
		}
	}
	return out
}

func roleResource(obj objects.Object) schema.GroupVersionResource {
	switch obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return clusterRoleBindings
	case *rbacv1.Role:
		return roles
	case *rbacv1.RoleBinding:
		return roleBindings
	}
	return clusterRoles
}

// reconcileRoles adds what the stored roles and bindings lack of their defaults. It runs at the start only (its loop is
// never notified), so they may be changed and deleted afterwards.
func (b *Bootstrap) reconcileRoles(ctx context.Context) error {
	if !b.RolesChanged(ctx) {
		return nil
	}
	var all errgroup.Group // writes that wait together are committed together
	all.SetLimit(clock.AtOnce(ctx, -1))
	for _, obj := range authz.Defaults(b.config.Features) {
		gvr := roleResource(obj)
		if b.rows[gvr.GroupResource()] == nil {
			continue
		}
		key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
		_, err := b.config.Store.Get(ctx, cache.StoreKey(gvr.GroupResource(), key), 0)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		all.Go(func() error { return b.reconcileRole(ctx, gvr, obj) })
	}
	return all.Wait()
}

// roleTries is how often a role is reconciled while other clients write it.
const roleTries = 5

// reconcileRole adds what a stored role or binding lacks of its default.
func (b *Bootstrap) reconcileRole(ctx context.Context, gvr schema.GroupVersionResource, want objects.Object) error {
	var err error
	for range roleTries {
		if err = b.tryRole(ctx, gvr, want); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return fmt.Errorf("reconcile %s %s: %w", gvr.Resource, want.GetName(), err)
}

func (b *Bootstrap) tryRole(ctx context.Context, gvr schema.GroupVersionResource, want objects.Object) error {
	key := objects.Key{Namespace: want.GetNamespace(), Name: want.GetName()}
	have, err := b.access.Reader.Get(ctx, gvr.GroupResource(), key)
	if err != nil {
		return err
	}
	c, at := b.access.Client(Agent), client.In(gvr, key)
	next, recreate := authz.Reconciled(have, want)
	switch {
	case recreate:
		opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.GetUID()))}
		if _, err := c.Delete(ctx, at, opts); err != nil {
			return err
		}
		_, err = c.Create(ctx, client.Target{Resource: gvr, Namespace: key.Namespace}, want.DeepCopyObject(), metav1.CreateOptions{})
		return err
	case next != nil:
		_, err = c.Update(ctx, at, next, metav1.UpdateOptions{})
		return err
	}
	return nil
}
