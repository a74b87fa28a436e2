package scheduler

import (
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// checkExtenders collects the errors in the fields of extenders. Whether they can be reached is not checked.
func checkExtenders(path *field.Path, extenders []configv1.Extender) field.ErrorList {
	var errs field.ErrorList
	binders := 0
	seen := sets.New[string]()
	for i := range extenders {
		x, at := &extenders[i], path.Index(i)
		errs = append(errs, checkURLPrefix(at.Child("urlPrefix"), x.URLPrefix)...)
		if x.PrioritizeVerb != "" && x.Weight <= 0 {
			errs = append(errs, field.Invalid(at.Child("weight"), x.Weight, "must have a positive weight applied to it"))
		}
		if x.HTTPTimeout.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child("httpTimeout"), x.HTTPTimeout.Duration.String(), "must not be negative"))
		}
		if x.BindVerb != "" {
			binders++
		}
		for j, r := range x.ManagedResources {
			name := at.Child("managedResources").Index(j).Child("name")
			errs = append(errs, checkExtendedResource(name, r.Name)...)
			if seen.Has(r.Name) {
				errs = append(errs, field.Invalid(name, r.Name, "duplicate extender managed resource name"))
			}
			seen.Insert(r.Name)
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
	return errs
}

// checkURLPrefix refuses what no call can be made to. Kubernetes accepts it, and then fails each pod.
func checkURLPrefix(path *field.Path, prefix string) field.ErrorList {
	if prefix == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	u, err := url.Parse(prefix)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, prefix, err.Error())}
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return field.ErrorList{field.Invalid(path, prefix, "must be an http or https URL with a host")}
	}
	return nil
}

func checkExtendedResource(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	quota := corev1.DefaultResourceRequestsPrefix + name // the name of its quota has to be valid, too
	if len(errs) == 0 && (!ExtendedResource(corev1.ResourceName(name)) || len(validation.IsQualifiedName(quota)) > 0) {
		errs = append(errs, field.Invalid(path, name, "is an invalid extended resource name"))
	}
	return errs
}

// ExtendedResource reports whether a resource is an extended one: its name has a domain, which is not Kubernetes' own.
func ExtendedResource(name corev1.ResourceName) bool {
	n := string(name)
	return strings.Contains(n, "/") && !strings.Contains(n, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(n, corev1.DefaultResourceRequestsPrefix)
}

// makeExtenders creates the extenders, in the order of their calls.
func (m *setup) makeExtenders(configs []configv1.Extender) (errs []error) {
	var last []*extender
	for i, config := range configs {
		x, err := newExtender(m, config)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", field.NewPath("extenders").Index(i).Child("tlsConfig"), err))
		case x.Ignorable:
			last = append(last, x)
		default:
			m.extenders = append(m.extenders, x)
		}
	}
	m.extenders = append(m.extenders, last...)
	return errs
}
