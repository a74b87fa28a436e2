package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// podClaims are the resource claims of a pod, which its containers refer to; nil: none.
type podClaims struct {
	names check.Seen[string]
	list  []string // without the empty ones
	text  string   // the list as text, built for the first error
}

func claimsOf(claims []corev1.PodResourceClaim) *podClaims {
	if len(claims) == 0 {
		return nil
	}
	p := &podClaims{}
	for i := range claims {
		if p.names.Again(claims[i].Name); claims[i].Name != "" {
			p.list = append(p.list, claims[i].Name)
		}
	}
	return p
}

// check checks that a container refers only to claims of its pod, and to each once: to the claim or to a request of it.
func (p *podClaims) check(claims []corev1.ResourceClaim, at *field.Path) field.ErrorList {
	if len(claims) == 0 {
		return nil
	}
	var errs field.ErrorList
	var seen check.Seen[corev1.ResourceClaim]
	requests := map[string]int{} // number of references by claim
	for i, c := range claims {
		idx := at.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(idx, ""))
			continue
		}
		switch whole := (corev1.ResourceClaim{Name: c.Name}); {
		case seen.Has(whole):
			errs = append(errs, field.Duplicate(idx, c.Name))
		case c.Request == "":
			for range requests[c.Name] {
				errs = append(errs, field.Duplicate(idx, c.Name))
			}
		default:
			errs = append(errs, check.Label(c.Request, idx, "request")...)
			if seen.Has(c) {
				errs = append(errs, field.Duplicate(idx, c.Name+"/"+c.Request))
			}
		}
		seen.Again(c)
		requests[c.Name]++
		if p == nil || !p.names.Has(c.Name) {
			errs = append(errs, p.unknown(c.Name, idx))
		}
	}
	return errs
}

func (p *podClaims) unknown(name string, at *field.Path) *field.Error {
	err := field.NotFound(at, name)
	err.Detail = "must be one of the names in pod.spec.resourceClaims"
	if p == nil {
		err.Detail += " which is empty"
		return err
	}
	if p.text == "" {
		p.text = err.Detail + ": " + strings.Join(slices.Sorted(slices.Values(p.list)), ", ")
	}
	err.Detail = p.text
	return err
}
