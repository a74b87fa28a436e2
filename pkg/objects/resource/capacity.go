package resource

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mostOptions is the maximum number of values in a policy.
const mostOptions = 10

// unshared checks the capacity of a device that only one claim may use.
func unshared(c resourcev1.DeviceCapacity, at *field.Path) field.ErrorList {
	if c.RequestPolicy != nil {
		return field.ErrorList{field.Forbidden(at.Child("requestPolicy"), "allowMultipleAllocations must be true")}
	}
	return nil
}

// shared checks the capacity of a device that several claims may share.
func shared(c resourcev1.DeviceCapacity, at *field.Path) field.ErrorList {
	p := c.RequestPolicy
	if p == nil {
		return nil
	}
	at = at.Child("requestPolicy")
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(at, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0:
		if p.Default == nil {
			return field.ErrorList{field.Required(at.Child("default"), "required when validValues is defined")}
		}
		return validValues(p, c.Value, at.Child("validValues"))
	case p.ValidRange != nil:
		if p.Default == nil {
			return field.ErrorList{field.Required(at.Child("default"), "required when validRange is defined")}
		}
		return validRange(p, c.Value, at.Child("validRange"))
	}
	return nil
}

func validValues(p *resourcev1.CapacityRequestPolicy, most resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := p.ValidValues
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, set(values, mostOptions, at,
		func(q *resource.Quantity) string { return fmt.Sprint(q.Value()) },
		func(q *resource.Quantity, at *field.Path) field.ErrorList {
			found = found || q.Cmp(*p.Default) == 0
			if q.Cmp(most) > 0 {
				return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("option is larger than capacity value: %s", most.String()))}
			}
			return nil
		})...)
	if !found {
		errs = append(errs, field.Invalid(at, p.Default.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

func validRange(p *resourcev1.CapacityRequestPolicy, most resource.Quantity, at *field.Path) field.ErrorList {
	low, high, step := p.ValidRange.Min, p.ValidRange.Max, p.ValidRange.Step
	if low == nil {
		return field.ErrorList{field.Required(at.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	larger := func(a, b resource.Quantity, child, shown, message string, than resource.Quantity) {
		if a.Cmp(b) > 0 {
			errs = append(errs, field.Invalid(at.Child(child), shown, fmt.Sprintf(message, than.String())))
		}
	}
	larger(*low, most, "min", low.String(), "min is larger than capacity value: %s", most)
	larger(*low, *p.Default, "min", p.Default.String(), "default is less than min: %s", *low)
	if high != nil {
		larger(*low, *high, "max", low.String(), "min is larger than max: %s", *high)
		larger(*high, most, "max", high.String(), "max is larger than capacity value: %s", most)
		larger(*p.Default, *high, "max", p.Default.String(), "default is more than max: %s", *high)
	}
	if step == nil {
		return errs
	}
	first := low.DeepCopy()
	first.Add(*step)
	if first.Cmp(most) > 0 {
		errs = append(errs, field.Invalid(at.Child("step"), step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), most.String())))
	}
	errs = append(errs, onStep(p.Default, low, step, at.Child("step"))...)
	if high != nil {
		errs = append(errs, onStep(high, low, step, at.Child("step"))...)
	}
	return errs
}

// onStep checks that a value is the minimum plus a multiple of the step. A zero step is skipped.
func onStep(q, low, step *resource.Quantity, at *field.Path) field.ErrorList {
	if s := step.Value(); s != 0 && (q.Value()-low.Value())%s == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", step.String(), low.String()))}
}
