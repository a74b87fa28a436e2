// Package scheduling holds the rows of the group scheduling.k8s.io.
package scheduling

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// HighestUserPriority is the highest value of a class that is not a system class.
const HighestUserPriority = 1_000_000_000

// SystemClasses returns the classes of every cluster.
func SystemClasses() []*schedulingv1.PriorityClass {
	node := &schedulingv1.PriorityClass{Value: 2*HighestUserPriority + 1000}
	node.Name = "system-node-critical"
	node.Description = "Used for system critical pods that must not be moved from their current node."
	cluster := &schedulingv1.PriorityClass{Value: 2 * HighestUserPriority}
	cluster.Name = "system-cluster-critical"
	cluster.Description = "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
	return []*schedulingv1.PriorityClass{node, cluster}
}

// PriorityClasses is the row of PriorityClass.
var PriorityClasses = objects.Def[*schedulingv1.PriorityClass]{
	Names: objects.Names{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass", Plural: "priorityclasses",
		Short: []string{"pc"}, Cluster: true},
	ApplyPriority: 160,
	Versions:      oldPriorityClasses,
	New:           func() *schedulingv1.PriorityClass { return &schedulingv1.PriorityClass{} },
	NewList:       func() runtime.Object { return &schedulingv1.PriorityClassList{} },
	Default:       defaultClass,
	Prepare:       prepareClass,
	Validate:      validateClass,
	Columns: []objects.Column[*schedulingv1.PriorityClass]{
		objects.NameColumn[*schedulingv1.PriorityClass](),
		{Name: "Value", Type: "integer", Description: classDoc["value"],
			Cell: func(c *schedulingv1.PriorityClass, _ time.Time) any { return int64(c.Value) }},
		{Name: "Global-Default", Type: "boolean", Description: classDoc["globalDefault"],
			Cell: func(c *schedulingv1.PriorityClass, _ time.Time) any { return c.GlobalDefault }},
		objects.AgeColumn[*schedulingv1.PriorityClass](),
		{Name: "PreemptionPolicy", Description: classDoc["preemptionPolicy"],
			Cell: func(c *schedulingv1.PriorityClass, _ time.Time) any {
				if c.PreemptionPolicy == nil {
					return ""
				}
				return string(*c.PreemptionPolicy)
			}},
	},
}

var classDoc = schedulingv1.PriorityClass{}.SwaggerDoc()

func defaultClass(c *schedulingv1.PriorityClass) {
	if c.PreemptionPolicy == nil {
		c.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	}
}

func prepareClass(c, old *schedulingv1.PriorityClass) {
	if old == nil {
		c.Generation = 1
	}
}

func validateClass(c, old *schedulingv1.PriorityClass) field.ErrorList {
	if old != nil {
		errs := check.MetaUpdate(c, old)
		if c.Value != old.Value {
			errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
		}
		return append(errs, check.Immutable(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
	}
	errs := check.Meta(c, false, validation.NameIsDNSSubdomain)
	switch {
	case strings.HasPrefix(c.Name, "system-"):
		if why := notSystemClass(c); why != "" {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+why))
		}
	case c.Value > HighestUserPriority:
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", HighestUserPriority)))
	}
	return append(errs, validatePreemption(c.PreemptionPolicy)...)
}

// notSystemClass returns why a class with a system class's name differs from it, or "".
func notSystemClass(c *schedulingv1.PriorityClass) string {
	for _, known := range SystemClasses() {
		if known.Name != c.Name {
			continue
		}
		if known.Value != c.Value {
			return fmt.Sprintf("value of %v PriorityClass must be %v", known.Name, known.Value)
		}
		if known.GlobalDefault != c.GlobalDefault {
			return fmt.Sprintf("globalDefault of %v PriorityClass must be %v", known.Name, known.GlobalDefault)
		}
		return ""
	}
	return fmt.Sprintf("%v is not a known system priority class", c.Name)
}

func validatePreemption(p *corev1.PreemptionPolicy) field.ErrorList {
	if p == nil || *p == corev1.PreemptLowerPriority || *p == corev1.PreemptNever {
		return nil
	}
	return check.Named(*p, []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}, field.NewPath("preemptionPolicy"))
}
