package resource

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// names maps the requests of a claim to their alternatives.
type names map[string][]string

func namesOf(c *resourcev1.DeviceClaim) names {
	out := names{}
	for i := range c.Requests {
		r := &c.Requests[i]
		out[r.Name] = nil
		for j := range r.FirstAvailable {
			out[r.Name] = append(out[r.Name], r.FirstAvailable[j].Name)
		}
	}
	return out
}

const noSuchRequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

// ref checks the name of a request, or of an alternative: REQUEST/ALTERNATIVE.
func (n names) ref(name *string, at *field.Path) field.ErrorList {
	parts := strings.Split(*name, "/")
	if len(parts) > 2 {
		return field.ErrorList{field.Invalid(at, *name, noSuchRequest)}
	}
	var errs field.ErrorList
	for _, part := range parts {
		errs = append(errs, check.Label(part, at)...)
	}
	alternatives, ok := n[parts[0]]
	if !ok || len(parts) == 2 && !slices.Contains(alternatives, parts[1]) {
		errs = append(errs, field.Invalid(at, *name, noSuchRequest))
	}
	return errs
}

func (n names) refs(list []string, at *field.Path) field.ErrorList {
	return set(list, resourcev1.DeviceRequestsMaxSize, at, itself, n.ref)
}

func validateClaimSpec(s *resourcev1.ResourceClaimSpec, at *field.Path) field.ErrorList {
	at = at.Child("devices")
	d := &s.Devices
	known := namesOf(d)
	errs := set(d.Requests, resourcev1.DeviceRequestsMaxSize, at.Child("requests"),
		func(r *resourcev1.DeviceRequest) string { return r.Name }, request)
	errs = append(errs, items(d.Constraints, resourcev1.DeviceConstraintsMaxSize, at.Child("constraints"), known.constraint)...)
	return append(errs, items(d.Config, resourcev1.DeviceConfigMaxSize, at.Child("config"),
		func(c *resourcev1.DeviceClaimConfiguration, at *field.Path) field.ErrorList {
			errs := known.refs(c.Requests, at.Child("requests"))
			return append(errs, configuration(&c.DeviceConfiguration, false, at)...)
		})...)
}

func request(r *resourcev1.DeviceRequest, at *field.Path) field.ErrorList {
	errs := check.Label(r.Name, at, "name")
	first := len(r.FirstAvailable) > 0
	switch {
	case r.Exactly == nil && !first:
		return append(errs, field.Required(at, "exactly one of `exactly` or `firstAvailable` is required"))
	case r.Exactly != nil && first:
		return append(errs, field.Invalid(at, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case first:
		return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, at.Child("firstAvailable"),
			func(s *resourcev1.DeviceSubRequest) string { return s.Name }, alternative)...)
	}
	e := r.Exactly
	return append(errs, requestFields{e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations}.check(at.Child("exactly"))...)
}

func alternative(s *resourcev1.DeviceSubRequest, at *field.Path) field.ErrorList {
	errs := check.Label(s.Name, at, "name")
	return append(errs, requestFields{s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations}.check(at)...)
}

// requestFields has the fields that requests and their alternatives share.
type requestFields struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func (a requestFields) check(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.class == "" {
		errs = append(errs, field.Required(at.Child("deviceClassName"), ""))
	} else {
		errs = check.Subdomain(a.class, at, "deviceClassName")
	}
	errs = append(errs, selectors(a.selectors, false, at.Child("selectors"))...)
	switch a.mode {
	case resourcev1.DeviceAllocationModeAll:
		if a.count != 0 {
			errs = append(errs, field.Invalid(at.Child("count"), a.count, fmt.Sprintf("must not be specified when allocationMode is '%s'", a.mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if a.count <= 0 {
			errs = append(errs, field.Invalid(at.Child("count"), a.count, "must be greater than zero"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("allocationMode"), a.mode,
			[]resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount}))
	}
	return append(errs, items(a.tolerations, unlimited, at.Child("tolerations"), toleration)...)
}

func (n names) constraint(c *resourcev1.DeviceConstraint, at *field.Path) field.ErrorList {
	errs := n.refs(c.Requests, at.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(errs, fullyQualified(*c.MatchAttribute, at.Child("matchAttribute"))...)
	case c.DistinctAttribute != nil:
		return append(errs, fullyQualified(*c.DistinctAttribute, at.Child("distinctAttribute"))...)
	}
	return append(errs, field.Required(at, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}

var (
	operators = []resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists}
	effects   = []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}
)

func toleration(t *resourcev1.DeviceToleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = check.LabelKey(t.Key, at, "key")
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, check.LabelValue(t.Value, at, "value")...)
	default:
		errs = append(errs, check.Named(t.Operator, operators, at, "operator")...)
	}
	if t.Effect != "" {
		errs = append(errs, check.OneOf(t.Effect, effects, at, "effect")...)
	}
	return errs
}
