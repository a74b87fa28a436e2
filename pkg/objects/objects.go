// Package objects defines the table of API resources, with one row (a Def) per resource. A row
// holds names, types, defaults, preparation, validation, columns and field selectors. Rows are data and pure
// functions. They are in the packages below this one, a file per resource, and package builtin lists them.
//
// Discovery, tables, short names and the verbs of the API server are derived from the rows and contain no resource's name.
package objects

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is what the API stores: a typed object with metadata.
type Object interface {
	runtime.Object
	metav1.Object
}

// Key identifies an object within its resource. Namespace is empty for cluster-scoped resources.
type Key = types.NamespacedName

// RevisionOf returns the revision of the store at which obj was written last, 0 if it comes from no API server.
func RevisionOf(obj metav1.Object) uint64 {
	rev, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // the API server writes numbers
	return rev
}

// Names are the names of a resource.
type Names struct {
	Group      string // "" for core
	Version    string // the stored version
	Kind       string
	Plural     string
	Singular   string   // "" means lower-case Kind
	Short      []string // "po"
	Categories []string // "all"
	Cluster    bool     // not namespaced

	// Hashed is the version that goes into discovery's storage version hash; "" means Version. It differs for kinds that
	// Kubernetes still stores in an older version.
	Hashed string
}

// Def describes one resource. Every func may be nil: the zero Def is a plain stored object with no defaults, no checks and
// the columns Name and Age. Functions are pure: they use no clock, disk or network, and change nothing but their first
// argument where documented. old is nil on create.
type Def[T Object] struct {
	Names      Names
	Versions   []Version[T] // other served versions, which convert to and from the stored one
	Deprecated string       // text of the Warning header; "": not deprecated
	New        func() T
	NewList    func() runtime.Object // the typed list, e.g. *corev1.PodList

	// ValidName returns what is wrong with a name, or with prefix with a generateName. nil: a DNS subdomain.
	ValidName func(name string, prefix bool) []string

	Default  func(obj T)                      // sets defaults; idempotent
	Prepare  func(obj, old T)                 // resets fields that clients may not set (status, generation), before validation
	Validate func(obj, old T) field.ErrorList // includes the metadata; nil: the metadata only
	Warnings func(obj, old T) []string        // for Warning headers

	Columns    []Column[T]
	Selectable map[string]func(T) string // field selectors besides metadata.name and metadata.namespace
	// Unselectable is the error message for an unsupported field selector, with one verb for the field's name.
	Unselectable string
	// Completed returns the conditions of the object's table row, which mark a finished object; nil: none.
	Completed func(T) []metav1.TableRowCondition
	// Reset lists the fields that a write of the main resource never owns in managedFields: "status", "metadata.generation".
	Reset []string

	Status *Status[T] // nil: no status subresource
	Scale  *Scale[T]  // nil: no scale subresource
	// Parts are other subresources that write a part of the object, by name: "ephemeralcontainers". Their names are also in
	// Connects.
	Parts    map[string]Status[T]
	Connects []string // other subresources, by name: "binding", "log". The API server has the list of their implementations

	// Grace returns the grace period of a delete in seconds, during which another component (the kubelet) finishes the object; 0
	// removes it at once. nil: 0.
	Grace func(obj T, requested *int64) int64

	// Deleting changes an object at the start of its deletion, for example adds a finalizer. If it sets the deletionTimestamp, the
	// request ends with that change. nil: no change.
	Deleting func(obj T, now time.Time)

	CreateOnUpdate bool   // PUT creates what does not exist
	NeedsVersion   bool   // PUT requires a resourceVersion
	Undecoded      bool   // the API server's cache keeps it encoded only (Events, Leases)
	OrphanDefault  bool   // a delete without a propagation policy orphans the dependents
	OrphanWarning  string // Warning header of such a delete; "": none
	ReturnsDeleted bool   // a delete returns the object instead of a Status (pods, services)
	// Controller is the component of Kubernetes without which objects have no effect; "": they need none. Where no controller
	// of that name runs, a create gets a Warning.
	Controller string
	Verbs      []string // nil: AllVerbs

	// ApplyPriority orders the objects that a client applies together: the greatest first, as other objects need them. 0: after
	// the others.
	ApplyPriority int
}

// Version is another served version of a resource. Its group may differ, too.
type Version[T Object] struct {
	Group, Version string
	New            func() runtime.Object
	NewList        func() runtime.Object
	Default        func(obj runtime.Object)                   // the version's own defaults, before To
	To             func(obj runtime.Object) (T, error)        // to the stored version; does not change obj
	From           func(obj T) (runtime.Object, error)        // from the stored version; does not change obj
	Validate       func(obj, old T) field.ErrorList           // additional checks of writes in this version
	Deprecated     string                                     // text of the Warning header; "": not deprecated
	Columns        []Column[T]                                // nil: those of the Def
	Selectable     map[string]func(T) string                  // nil: those of the Def
	Label          func(field, value string) (string, string) // translates a field selector to the Def's; nil: unchanged
	Renamed        map[string]string                          // names of fields in errors that differ from the Def's
}

// Status describes the status subresource, or another subresource that writes a part of the object.
type Status[T Object] struct {
	Prepare  func(obj, old T) // restores from old all that such a write may not change
	Validate func(obj, old T) field.ErrorList
	Warnings func(obj, old T) []string // for Warning headers; nil: none
	Reset    []string                  // fields that such a write never owns: "spec"
}

// Scale describes the scale subresource.
type Scale[T Object] struct {
	Spec     func(obj T) int32
	SetSpec  func(obj T, replicas int32)
	Status   func(obj T) int32
	Selector func(obj T) string // as a label selector string

	// Path returns the path of a version's replicas field; nil: spec.replicas in every version.
	Path func(version string) []string
}

// Column is one column of kubectl get.
type Column[T Object] struct {
	Name        string
	Type        string // "string" when empty; "integer", "boolean", "date"
	Format      string // "name" for the first column
	Description string
	Wide        bool // only in -o wide (priority 1)
	Priority    int32
	Cell        func(obj T, now time.Time) any // string, int64 or bool
}

// GVK returns the kind of the stored version.
func (n Names) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: n.Group, Version: n.Version, Kind: n.Kind}
}

// GVR returns the resource of the stored version.
func (n Names) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: n.Group, Version: n.Version, Resource: n.Plural}
}

// GR returns the resource without a version, as error messages and RBAC name it.
func (n Names) GR() schema.GroupResource {
	return schema.GroupResource{Group: n.Group, Resource: n.Plural}
}
