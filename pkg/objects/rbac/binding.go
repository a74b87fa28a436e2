package rbac

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// RoleBindings is the row of RoleBinding.
var RoleBindings = objects.Def[*rbacv1.RoleBinding]{
	Names:         objects.Names{Group: rbacv1.GroupName, Version: version, Kind: "RoleBinding", Plural: "rolebindings"},
	ApplyPriority: 80,
	Versions:      oldRoleBindings,
	New:           func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
	NewList:       func() runtime.Object { return &rbacv1.RoleBindingList{} },
	ValidName:     validName,
	Default:       func(b *rbacv1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	Validate: func(b, old *rbacv1.RoleBinding) field.ErrorList {
		errs := append(check.Meta(b, true, validName), binding(&b.RoleRef, b.Subjects, true)...)
		if old != nil {
			errs = append(append(errs, check.MetaUpdate(b, old)...), sameRole(b.RoleRef, old.RoleRef)...)
		}
		return errs
	},
	Columns: bindingColumns("roleBinding", rbacv1beta1.RoleBinding{}.SwaggerDoc()["roleRef"],
		func(b *rbacv1.RoleBinding) (*rbacv1.RoleRef, []rbacv1.Subject) { return &b.RoleRef, b.Subjects }),
	CreateOnUpdate: true,
}

// ClusterRoleBindings is the row of ClusterRoleBinding.
var ClusterRoleBindings = objects.Def[*rbacv1.ClusterRoleBinding]{
	Names:         objects.Names{Group: rbacv1.GroupName, Version: version, Kind: "ClusterRoleBinding", Plural: "clusterrolebindings", Cluster: true},
	ApplyPriority: 100,
	Versions:      oldClusterRoleBindings,
	New:           func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} },
	NewList:       func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
	ValidName:     validName,
	Default:       func(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	Validate: func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
		errs := append(check.Meta(b, false, validName), binding(&b.RoleRef, b.Subjects, false)...)
		if old != nil {
			errs = append(append(errs, check.MetaUpdate(b, old)...), sameRole(b.RoleRef, old.RoleRef)...)
		}
		return errs
	},
	Columns: bindingColumns("clusterRoleBinding", rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"],
		func(b *rbacv1.ClusterRoleBinding) (*rbacv1.RoleRef, []rbacv1.Subject) { return &b.RoleRef, b.Subjects }),
	CreateOnUpdate: true,
}

func bindingColumns[T objects.Object](kind, doc string, of func(T) (*rbacv1.RoleRef, []rbacv1.Subject)) []objects.Column[T] {
	subjects := func(name, kind string, show func(*rbacv1.Subject) string, in string) objects.Column[T] {
		return objects.Column[T]{Name: name, Wide: true, Description: name + " in the " + in, Cell: func(obj T, _ time.Time) any {
			_, subjects := of(obj)
			var out []string
			for i := range subjects {
				if subjects[i].Kind == kind {
					out = append(out, show(&subjects[i]))
				}
			}
			return strings.Join(out, ", ")
		}}
	}
	name := func(s *rbacv1.Subject) string { return s.Name }
	return []objects.Column[T]{
		objects.NameColumn[T](),
		{Name: "Role", Description: doc, Cell: func(obj T, _ time.Time) any {
			ref, _ := of(obj)
			return ref.Kind + "/" + ref.Name
		}},
		objects.AgeColumn[T](),
		subjects("Users", rbacv1.UserKind, name, kind),
		subjects("Groups", rbacv1.GroupKind, name, kind),
		subjects("ServiceAccounts", rbacv1.ServiceAccountKind, func(s *rbacv1.Subject) string { return s.Namespace + "/" + s.Name }, kind),
	}
}

func defaultBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		if s := &subjects[i]; s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func sameRole(now, was rbacv1.RoleRef) field.ErrorList {
	if now == was {
		return nil
	}
	shown := struct{ APIGroup, Kind, Name string }(now) // messages have the field names of Kubernetes' internal types
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), shown, "cannot change roleRef")}
}

var ours = []string{rbacv1.GroupName}

// binding checks the role reference and the subjects. A ClusterRoleBinding may refer to ClusterRoles only, and its ServiceAccounts
// need a namespace.
func binding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	at := field.NewPath("roleRef")
	errs := check.OneOf(ref.APIGroup, ours, at, "apiGroup")
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	errs = append(errs, check.OneOf(ref.Kind, kinds, at, "kind")...)
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, check.Invalid(at.Child("name"), ref.Name, validName(ref.Name, false))...)
	}
	for i := range subjects {
		errs = append(errs, subject(&subjects[i], namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

var subjectKinds = []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}

func subject(s *rbacv1.Subject, namespaced bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, check.Invalid(at.Child("name"), s.Name, validation.ValidateServiceAccountName(s.Name, false))...)
		}
		errs = append(errs, check.OneOf(s.APIGroup, []string{""}, at, "apiGroup")...)
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, check.OneOf(s.APIGroup, ours, at, "apiGroup")...)
	default:
		errs = append(errs, field.NotSupported(at.Child("kind"), s.Kind, subjectKinds))
	}
	return errs
}
