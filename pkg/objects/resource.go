package objects

import (
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Resource is a Def with its type erased, as the API server uses it. No function is nil
// unless documented. Row makes it; it must not be changed afterwards.
type Resource struct {
	Names      Names
	Versions   []VersionOf // the stored version first
	New        func() Object
	NewList    func() runtime.Object
	ValidName  func(name string, prefix bool) []string
	Default    func(obj Object)
	Prepare    func(obj, old Object)                 // old may be nil
	Validate   func(obj, old Object) field.ErrorList // the metadata too
	Warnings   func(obj, old Object) []string
	Reset      []string
	Status     *StatusOf // nil: no status subresource
	Scale      *ScaleOf  // nil: no scale subresource
	Parts      map[string]*StatusOf
	Connects   []string
	Grace      func(obj Object, requested *int64) int64 // negative: no graceful deletion
	Read       func(value []byte) (Object, error)       // decodes a stored value of any version; nil: decode into New()
	Deleting   func(obj Object, now time.Time)          // changes a copy before its deletionTimestamp is set; nil: no change
	Selectable map[string]func(Object) string

	Unselectable string                                  // "": the usual message
	Completed    func(Object) []metav1.TableRowCondition // nil: none

	CreateOnUpdate, NeedsVersion, Undecoded, OrphanDefault, ReturnsDeleted bool
	OrphanWarning                                                          string
	Controller                                                             string
	Verbs                                                                  []string
	ApplyPriority                                                          int

	PatchTypes []types.PatchType // that clients may use, in the order of error messages
	// Complete fills in an object directly before it is stored; nil: nothing.
	Complete func(obj Object)
	// DefaultsUnowned leaves the defaults of the stored version out of managedFields: in a write through another version,
	// Default is called after managedFields are updated, not before.
	DefaultsUnowned bool
	// Versionless accepts a patched object without an apiVersion.
	Versionless bool

	// Revision distinguishes the successive rows of a custom resource; "" for compiled-in resources.
	Revision string
}

// Each returns pointers to the rows of a list.
func Each(list []Resource) []*Resource {
	out := make([]*Resource, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// Custom reports whether this is a custom resource, whose objects are unstructured.
func (r *Resource) Custom() bool { return r.Revision != "" }

// Part returns the Status of a subresource that writes a part of the object, or nil.
func (r *Resource) Part(subresource string) *StatusOf {
	if subresource == "status" {
		return r.Status
	}
	return r.Parts[subresource]
}

// VersionOf is a Version with its type erased, or the stored version of a resource.
type VersionOf struct {
	Group, Version string
	New            func() runtime.Object
	NewList        func() runtime.Object
	Default        func(obj runtime.Object)
	To             func(obj runtime.Object) (Object, error) // nil: this is the stored version
	From           func(obj Object) (runtime.Object, error) // nil: this is the stored version
	Validate       func(obj, old Object) field.ErrorList    // in addition to the Resource's
	Deprecated     string
	Columns        []ColumnOf
	Selectable     map[string]func(Object) string
	Label          func(field, value string) (string, string)
	Renamed        map[string]string // names of fields in errors that differ from the Resource's

	// The fields below are for custom resources, and nil for others, whose Go type has the information.

	Unserved bool // objects may be stored in it, but it is not served
	// Coerce drops the fields of decoded JSON that the schema of the version does not specify, and returns their paths.
	Coerce func(obj runtime.Object) (unknown []string, err error)
	// ValidateStatus checks a write of the status, in addition to the Resource's StatusOf.Validate.
	ValidateStatus func(obj, old Object) field.ErrorList
	// Merge returns the schema by which server-side apply merges objects of the version.
	Merge func() (typed.ParseableType, error)
	// OpenAPI returns the documents of the version alone, with its paths.
	OpenAPI func() (OpenAPI, error)
}

// OpenAPI holds the OpenAPI documents of a version of a kind, v2 and v3.
type OpenAPI struct {
	V2 *spec.Swagger
	V3 *spec3.OpenAPI
}

// StatusOf is a Status with its type erased.
type StatusOf struct {
	Prepare  func(obj, old Object)
	Validate func(obj, old Object) field.ErrorList
	Warnings func(obj, old Object) []string // nil: none
	Reset    []string
}

// ScaleOf is a Scale with its type erased.
type ScaleOf struct {
	Spec     func(obj Object) int32
	SetSpec  func(obj Object, replicas int32)
	Status   func(obj Object) int32
	Selector func(obj Object) string
	Path     func(version string) []string // nil: spec.replicas
	// Check returns an error when obj has no scale: an *UnsetReplicas, or an error about a field of the wrong type. nil:
	// every object has a scale.
	Check func(obj Object) error
	// Validate validates the scale that a client writes. nil: the object that results is validated as in an update.
	Validate func(scale *autoscalingv1.Scale) field.ErrorList
}

// validateScale validates the scale of a typed object.
func validateScale(scale *autoscalingv1.Scale) field.ErrorList {
	errs := validation.ValidateObjectMeta(&scale.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if scale.Spec.Replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"))
	}
	return errs
}

// UnsetReplicas is the error of an object whose field for the desired replicas, at Path, is not set.
type UnsetReplicas struct{ Path string }

func (e *UnsetReplicas) Error() string {
	return fmt.Sprintf("the spec replicas field %q does not exist", e.Path)
}

// ColumnOf is a Column with its type erased.
type ColumnOf struct {
	Name, Type, Format, Description string
	Priority                        int32
	Cell                            func(obj Object, now time.Time) any
}

// AllVerbs are the default verbs of a resource, in discovery's order.
var AllVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Row erases a Def's type. It panics if the names, New or NewList are missing, which is a programmer error.
func Row[T Object](d Def[T]) Resource {
	n := d.Names
	if n.Singular == "" {
		n.Singular = strings.ToLower(n.Kind)
	}
	if n.Version == "" || n.Kind == "" || n.Plural == "" || d.New == nil || d.NewList == nil {
		panic("objects: row " + n.Kind + " is incomplete")
	}
	r := Resource{
		Names: n, New: func() Object { return d.New() }, NewList: d.NewList, ValidName: d.ValidName,
		Reset: d.Reset, Connects: d.Connects, Selectable: eraseSelectable(d.Selectable),
		CreateOnUpdate: d.CreateOnUpdate, NeedsVersion: d.NeedsVersion, Undecoded: d.Undecoded,
		OrphanDefault: d.OrphanDefault, OrphanWarning: d.OrphanWarning, ReturnsDeleted: d.ReturnsDeleted, Controller: d.Controller, Verbs: d.Verbs,
		ApplyPriority: d.ApplyPriority,
		Default:       eraseOne(d.Default), Prepare: eraseTwo(d.Prepare),
		Validate: eraseCheck(d.Validate), Warnings: eraseWarnings(d.Warnings),
		Grace: func(Object, *int64) int64 { return -1 },
		PatchTypes: []types.PatchType{
			types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType,
		},
	}
	if r.ValidName == nil {
		r.ValidName = validation.NameIsDNSSubdomain
	}
	if d.Validate == nil {
		r.Validate = metadataCheck(r.Names, r.ValidName)
	}
	if r.Verbs == nil {
		r.Verbs = AllVerbs
	}
	r.Unselectable = d.Unselectable
	if d.Completed != nil {
		r.Completed = func(obj Object) []metav1.TableRowCondition { return d.Completed(obj.(T)) }
	}
	if d.Grace != nil {
		r.Grace = func(obj Object, requested *int64) int64 { return d.Grace(obj.(T), requested) }
	}
	if d.Deleting != nil {
		r.Deleting = func(obj Object, now time.Time) { d.Deleting(obj.(T), now) }
	}
	if s := d.Status; s != nil {
		r.Status = eraseStatus(*s)
	}
	if len(d.Parts) > 0 {
		r.Parts = map[string]*StatusOf{}
	}
	for name, s := range d.Parts {
		r.Parts[name] = eraseStatus(s)
	}
	if s := d.Scale; s != nil {
		r.Scale = &ScaleOf{
			Spec:     func(obj Object) int32 { return s.Spec(obj.(T)) },
			SetSpec:  func(obj Object, n int32) { s.SetSpec(obj.(T), n) },
			Status:   func(obj Object) int32 { return s.Status(obj.(T)) },
			Selector: func(obj Object) string { return s.Selector(obj.(T)) },
			Path:     s.Path,
			Validate: validateScale,
		}
	}
	r.Versions = []VersionOf{{
		Group: n.Group, Version: n.Version, NewList: d.NewList, New: func() runtime.Object { return d.New() },
		Default: func(runtime.Object) {}, Columns: eraseColumns(d.Columns), Selectable: r.Selectable,
		Validate: eraseCheck[T](nil), Deprecated: d.Deprecated,
	}}
	for _, v := range d.Versions {
		r.Versions = append(r.Versions, eraseVersion(d, v, r))
	}
	return r
}

// metadataCheck returns the Validate of a Def without one.
func metadataCheck(n Names, name func(name string, prefix bool) []string) func(obj, old Object) field.ErrorList {
	at := field.NewPath("metadata")
	return func(obj, old Object) field.ErrorList {
		if old != nil {
			return validation.ValidateObjectMetaAccessorUpdate(obj, old, at)
		}
		return validation.ValidateObjectMetaAccessor(obj, !n.Cluster, name, at)
	}
}

func eraseVersion[T Object](d Def[T], v Version[T], r Resource) VersionOf {
	s := VersionOf{
		Group: v.Group, Version: v.Version, New: v.New, NewList: v.NewList, Default: v.Default, Deprecated: v.Deprecated,
		To:      func(obj runtime.Object) (Object, error) { return v.To(obj) },
		From:    func(obj Object) (runtime.Object, error) { return v.From(obj.(T)) },
		Columns: eraseColumns(d.Columns), Selectable: r.Selectable, Label: v.Label, Validate: eraseCheck(v.Validate),
		Renamed: v.Renamed,
	}
	if s.Default == nil {
		s.Default = func(runtime.Object) {}
	}
	if v.Columns != nil {
		s.Columns = eraseColumns(v.Columns)
	}
	if v.Selectable != nil {
		s.Selectable = eraseSelectable(v.Selectable)
	}
	return s
}

func eraseStatus[T Object](s Status[T]) *StatusOf {
	return &StatusOf{
		Prepare: eraseTwo(s.Prepare), Validate: eraseCheck(s.Validate), Warnings: eraseWarnings(s.Warnings),
		Reset: s.Reset,
	}
}

func eraseOne[T Object](f func(T)) func(Object) {
	if f == nil {
		return func(Object) {}
	}
	return func(obj Object) { f(obj.(T)) }
}

// as returns obj as a T, or a nil pointer for a nil Object.
func as[T Object](obj Object) T {
	t, _ := obj.(T)
	return t
}

func eraseTwo[T Object](f func(obj, old T)) func(obj, old Object) {
	if f == nil {
		return func(_, _ Object) {}
	}
	return func(obj, old Object) { f(obj.(T), as[T](old)) }
}

func eraseCheck[T Object](f func(obj, old T) field.ErrorList) func(obj, old Object) field.ErrorList {
	if f == nil {
		return func(_, _ Object) field.ErrorList { return nil }
	}
	return func(obj, old Object) field.ErrorList { return f(obj.(T), as[T](old)) }
}

func eraseWarnings[T Object](f func(obj, old T) []string) func(obj, old Object) []string {
	if f == nil {
		return func(_, _ Object) []string { return nil }
	}
	return func(obj, old Object) []string { return f(obj.(T), as[T](old)) }
}

func eraseSelectable[T Object](fields map[string]func(T) string) map[string]func(Object) string {
	out := map[string]func(Object) string{
		"metadata.name":      func(obj Object) string { return obj.GetName() },
		"metadata.namespace": func(obj Object) string { return obj.GetNamespace() },
	}
	for name, f := range fields {
		out[name] = func(obj Object) string { return f(obj.(T)) }
	}
	return out
}

func eraseColumns[T Object](columns []Column[T]) []ColumnOf {
	if columns == nil {
		columns = []Column[T]{NameColumn[T](), AgeColumn[T]()}
	}
	out := make([]ColumnOf, 0, len(columns))
	for _, c := range columns {
		e := ColumnOf{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority}
		if e.Type == "" {
			e.Type = "string"
		}
		if c.Wide {
			e.Priority = 1
		}
		e.Cell = func(obj Object, now time.Time) any { return c.Cell(obj.(T), now) }
		out = append(out, e)
	}
	return out
}
