package flowcontrol

import (
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// PriorityLevelConfigurations is the row of PriorityLevelConfiguration.
var PriorityLevelConfigurations = objects.Def[*flowcontrolv1.PriorityLevelConfiguration]{
	Names: objects.Names{Group: group, Version: "v1", Kind: "PriorityLevelConfiguration", Plural: "prioritylevelconfigurations",
		Cluster: true},
	New:      func() *flowcontrolv1.PriorityLevelConfiguration { return &flowcontrolv1.PriorityLevelConfiguration{} },
	NewList:  func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
	Default:  defaultLevel,
	Prepare:  prepareLevel,
	Validate: validateLevel,
	Columns:  levelColumns,
	Reset:    []string{"status"},
	Status: &objects.Status[*flowcontrolv1.PriorityLevelConfiguration]{
		Prepare: func(l, old *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec = old.Spec
			keepMeta(&l.ObjectMeta, &old.ObjectMeta)
		},
		Validate: validateLevelStatus,
		Reset:    []string{"spec", "metadata"},
	},
}

// The defaults of a priority level.
const (
	defaultShares           = 30
	defaultQueues           = 64
	defaultHandSize         = 8
	defaultQueueLengthLimit = 50
)

func defaultLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		defaultTo(&e.NominalConcurrencyShares, 0)
		defaultTo(&e.LendablePercent, 0)
	}
	lim := l.Spec.Limited
	if lim == nil {
		return
	}
	defaultTo(&lim.NominalConcurrencyShares, defaultShares)
	defaultTo(&lim.LendablePercent, 0)
	if q := lim.LimitResponse.Queuing; q != nil {
		for _, f := range []struct {
			at *int32
			to int32
		}{{&q.HandSize, defaultHandSize}, {&q.Queues, defaultQueues}, {&q.QueueLengthLimit, defaultQueueLengthLimit}} {
			if *f.at == 0 {
				*f.at = f.to
			}
		}
	}
}

func defaultTo(at **int32, to int32) {
	if *at == nil {
		*at = &to
	}
}

func prepareLevel(l, old *flowcontrolv1.PriorityLevelConfiguration) {
	if old == nil {
		l.Status = flowcontrolv1.PriorityLevelConfigurationStatus{}
		l.Generation = 1
		return
	}
	l.Status = old.Status
	check.Generation(l, old, func() bool { return !check.Same(&l.Spec, &old.Spec) })
}

var (
	limitedDoc = flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()
	queuingDoc = flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
)

var levelColumns = []objects.Column[*flowcontrolv1.PriorityLevelConfiguration]{
	objects.NameColumn[*flowcontrolv1.PriorityLevelConfiguration](),
	{Name: "Type", Description: flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"],
		Cell: func(l *flowcontrolv1.PriorityLevelConfiguration, _ time.Time) any { return string(l.Spec.Type) }},
	{Name: "NominalConcurrencyShares", Description: limitedDoc["nominalConcurrencyShares"],
		Cell: func(l *flowcontrolv1.PriorityLevelConfiguration, _ time.Time) any {
			if l.Spec.Limited == nil || l.Spec.Limited.NominalConcurrencyShares == nil {
				return none
			}
			return int64(*l.Spec.Limited.NominalConcurrencyShares)
		}},
	queuingColumn("Queues", "queues", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues }),
	queuingColumn("HandSize", "handSize", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize }),
	queuingColumn("QueueLengthLimit", "queueLengthLimit", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit }),
	objects.AgeColumn[*flowcontrolv1.PriorityLevelConfiguration](),
}

func queuingColumn(name, doc string, value func(*flowcontrolv1.QueuingConfiguration) int32) objects.Column[*flowcontrolv1.PriorityLevelConfiguration] {
	return objects.Column[*flowcontrolv1.PriorityLevelConfiguration]{Name: name, Description: queuingDoc[doc],
		Cell: func(l *flowcontrolv1.PriorityLevelConfiguration, _ time.Time) any {
			if l.Spec.Limited == nil || l.Spec.Limited.LimitResponse.Queuing == nil {
				return none
			}
			return int64(value(l.Spec.Limited.LimitResponse.Queuing))
		}}
}

// keepZero marked levels in v1beta3, where zero was the default. It is rejected.
const keepZero = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"

func validateLevel(l, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	errs := check.Meta(l, false, validation.NameIsDNSSubdomain)
	if _, ok := l.Annotations[keepZero]; ok {
		errs = append(errs, field.Forbidden(check.Metadata.Child("annotations"), fmt.Sprintf("annotation '%s' is forbidden", keepZero)))
	}
	errs = append(errs, validateLevelSpec(l.Name, &l.Spec)...)
	if fixed := mandatoryLevel(l.Name); fixed != nil {
		spec, text := l.Spec, "spec of '%s' must equal the fixed value"
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			spec.Exempt, text = fixed.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !equality.Semantic.DeepEqual(spec, fixed.Spec) {
			errs = append(errs, field.Invalid(check.Spec, check.Shown(l.Spec), fmt.Sprintf(text, l.Name)))
		}
	}
	return append(errs, validateLevelStatus(l, nil)...)
}

func validateLevelSpec(name string, spec *flowcontrolv1.PriorityLevelConfigurationSpec) field.ErrorList {
	var errs field.ErrorList
	if (name == "exempt") != (spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(check.Spec.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	limited, exempt := check.Spec.Child("limited"), check.Spec.Child("exempt")
	switch spec.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if spec.Limited != nil {
			errs = append(errs, field.Forbidden(limited, "must be nil if the type is not Limited"))
		}
		if e := spec.Exempt; e != nil {
			errs = append(errs, validateShares(e.NominalConcurrencyShares, e.LendablePercent, exempt)...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			errs = append(errs, field.Forbidden(exempt, "must be nil if the type is Limited"))
		}
		if spec.Limited == nil {
			return append(errs, field.Required(limited, "must not be empty when type is Limited"))
		}
		errs = append(errs, validateLimited(spec.Limited, limited)...)
	case "":
		errs = append(errs, field.Required(check.Spec.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(check.Spec.Child("type"), spec.Type,
			[]flowcontrolv1.PriorityLevelEnablement{flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited}))
	}
	return errs
}

func validateShares(shares, lendable *int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(at.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(at.Child("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, at *field.Path) field.ErrorList {
	errs := validateShares(l.NominalConcurrencyShares, nil, at)
	errs = append(errs, validateResponse(&l.LimitResponse, at.Child("limitResponse"))...)
	errs = append(errs, validateShares(nil, l.LendablePercent, at)...)
	if b := l.BorrowingLimitPercent; b != nil && *b < 0 {
		errs = append(errs, field.Invalid(at.Child("borrowingLimitPercent"), *b, "if specified, must be a non-negative integer"))
	}
	return errs
}

func validateResponse(r *flowcontrolv1.LimitResponse, at *field.Path) field.ErrorList {
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			return field.ErrorList{field.Forbidden(at.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited")}
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return field.ErrorList{field.Required(at.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited")}
		}
		return validateQueuing(r.Queuing, at.Child("queuing"))
	case "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	default:
		return field.ErrorList{field.NotSupported(at.Child("type"), r.Type,
			[]flowcontrolv1.LimitResponseType{flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject})}
	}
	return nil
}

const maxQueues = 10_000_000

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	invalid := func(name string, value int32, text string) {
		errs = append(errs, field.Invalid(at.Child(name), value, text))
	}
	if q.QueueLengthLimit <= 0 {
		invalid("queueLengthLimit", q.QueueLengthLimit, "must be positive")
	}
	switch {
	case q.Queues <= 0:
		invalid("queues", q.Queues, "must be positive")
	case q.Queues > maxQueues:
		invalid("queues", q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	}
	switch {
	case q.HandSize <= 0:
		invalid("handSize", q.HandSize, "must be positive")
	case q.HandSize > q.Queues:
		invalid("handSize", q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	case shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)) > shufflesharding.MaxHashBits:
		invalid("handSize", q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			q.Queues, q.HandSize, shufflesharding.MaxHashBits))
	}
	return errs
}

func validateLevelStatus(l, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var types []string
	for _, c := range l.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return validateConditions(types)
}
