// Package kwok has the types of kwok's API group kwok.x-k8s.io that minikctl acts on, and the definition of their resources. Source of the
// schema: https://kwok.sigs.k8s.io/docs/generated/apis/, version v1alpha1.
package kwok

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group's only version.
var GroupVersion = schema.GroupVersion{Group: "kwok.x-k8s.io", Version: "v1alpha1"}

// Stages is the resource of Stage.
var Stages = GroupVersion.WithResource("stages")

// Manager is the field manager of the writes that Stages make.
const Manager = "kwok"

// Stage is a step in the life of the objects that it selects: after a delay it changes or deletes them.
type Stage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   StageSpec   `json:"spec"`
	Status StageStatus `json:"status,omitzero"`
}

// StageSpec is the specification of a Stage.
type StageSpec struct {
	ResourceRef ResourceRef     `json:"resourceRef"`
	Selector    *Selector       `json:"selector,omitempty"` // nil: the Stage selects nothing
	Weight      int64           `json:"weight,omitempty"`
	WeightFrom  *ExpressionFrom `json:"weightFrom,omitempty"`
	Delay       *Delay          `json:"delay,omitempty"`
	Next        *Next           `json:"next,omitempty"` // the older form of Steps, which has no effect beside them
	Steps       []Step          `json:"steps,omitempty"`

	// ImmediateNextStage matches the Stages again with the response of the last patch, without waiting for the watch.
	ImmediateNextStage bool `json:"immediateNextStage,omitempty"`
}

// ResourceRef names a kind.
type ResourceRef struct {
	APIGroup string `json:"apiGroup,omitempty"` // a group and version, "v1" by default
	Kind     string `json:"kind"`
}

// Selector selects objects that meet all its requirements.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`
	MatchExpressions []MatchExpression `json:"matchExpressions,omitempty"`
}

// MatchExpression is a requirement in one of three forms: CEL, JQ, or the fields of JQ inline.
type MatchExpression struct {
	CEL *Expression `json:"cel,omitempty"`
	JQ  *SelectorJQ `json:"jq,omitempty"`

	SelectorJQ `json:",inline"`
}

// SelectorJQ compares the results of a jq expression.
type SelectorJQ struct {
	Key      string   `json:"key,omitempty"`
	Operator string   `json:"operator,omitempty"` // In, NotIn, Exists or DoesNotExist
	Values   []string `json:"values,omitempty"`
}

// Expression is an expression of CEL or jq.
type Expression struct {
	Expression string `json:"expression,omitempty"`
}

// ExpressionFrom reads a value from the object. ExpressionFrom is the older form of JQ.
type ExpressionFrom struct {
	CEL            *Expression `json:"cel,omitempty"`
	JQ             *Expression `json:"jq,omitempty"`
	ExpressionFrom string      `json:"expressionFrom,omitempty"`
}

// Delay is how long an object is selected before the Stage acts: a time between the duration and the jitter duration.
type Delay struct {
	DurationMilliseconds       *int64          `json:"durationMilliseconds,omitempty"`
	DurationFrom               *ExpressionFrom `json:"durationFrom,omitempty"`
	JitterDurationMilliseconds *int64          `json:"jitterDurationMilliseconds,omitempty"`
	JitterDurationFrom         *ExpressionFrom `json:"jitterDurationFrom,omitempty"`
}

// Next is what a Stage does, in this order: event, finalizers, patches or statusTemplate, delete.
type Next struct {
	Event             *Event         `json:"event,omitempty"`
	Finalizers        *Finalizers    `json:"finalizers,omitempty"`
	Delete            bool           `json:"delete,omitempty"`
	Patches           []Patch        `json:"patches,omitempty"`
	StatusTemplate    string         `json:"statusTemplate,omitempty"`
	StatusSubresource *string        `json:"statusSubresource,omitempty"`
	StatusPatchAs     *Impersonation `json:"statusPatchAs,omitempty"`
}

// Step is one of the things that a Stage does.
type Step struct {
	Event      *Event      `json:"event,omitempty"`
	Finalizers *Finalizers `json:"finalizers,omitempty"`
	Delete     bool        `json:"delete,omitempty"`
	Patch      *Patch      `json:"patch,omitempty"`
	Apply      *Apply      `json:"apply,omitempty"`
}

// Event is an Event about the object.
type Event struct {
	Type    string `json:"type,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Finalizers changes the object's finalizers.
type Finalizers struct {
	Add    []Finalizer `json:"add,omitempty"`
	Remove []Finalizer `json:"remove,omitempty"`
	Empty  bool        `json:"empty,omitempty"`
}

// Finalizer is one finalizer.
type Finalizer struct {
	Value string `json:"value,omitempty"`
}

// Patch is a patch of the object whose content is a Go template that renders YAML.
type Patch struct {
	Subresource   string         `json:"subresource,omitempty"`
	Root          string         `json:"root,omitempty"` // the field to which the content belongs; "": the object
	Template      string         `json:"template,omitempty"`
	Type          string         `json:"type,omitempty"` // json, merge or strategic, which is the default
	Impersonation *Impersonation `json:"impersonation,omitempty"`
}

// Apply creates or patches another object.
type Apply struct {
	Template      string         `json:"template,omitempty"`
	Subresource   string         `json:"subresource,omitempty"`
	Type          string         `json:"type,omitempty"`
	Impersonation *Impersonation `json:"impersonation,omitempty"`
}

// Impersonation is the user as which a patch is made.
type Impersonation struct {
	Username string `json:"username"`
}

// StageStatus is the state of a Stage.
type StageStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
