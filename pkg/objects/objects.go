// Package objects owns what the program knows about each API resource: a table with one row (a Def) per resource, which
// holds its names, types, defaults, preparation, validation, columns and field selectors. Rows are data and pure
// functions; they live in the packages below this one, a file per resource, and package builtin lists them all.
//
// Discovery, tables, short names and the verbs of the API server are derived from the rows and know no resource by name.
package objects

import (
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

// Key names an object within its resource. Namespace is empty for cluster-scoped ones.
type Key = types.NamespacedName

// Names says what a resource is called.
type Names struct {
	Group      string // "" for core
	Version    string // the stored version
	Kind       string
	Plural     string
	Singular   string   // "" means lower-case Kind
	Short      []string // "po"
	Categories []string // "all"
	Cluster    bool     // not namespaced

	// Hashed is the version that discovery's hash of the storage version is made of; "" means Version. It is the one in
	// which Kubernetes stores a kind that it still stores in an older version.
	Hashed string
}

// Def describes one resource. Every func may be nil: the zero Def is a plain stored object with no defaults, no checks and
// the columns Name and Age. Functions are pure: they touch no clock, disk or network, and change only the object that
// they are to change. old is nil on create.
type Def[T Object] struct {
	Names      Names
	Versions   []Version[T] // other served versions, which convert to and from the stored one
	Deprecated string       // the text of the Warning header; "": not deprecated
	New        func() T
	NewList    func() runtime.Object // the typed list, e.g. *corev1.PodList

	// ValidName checks a name, or with prefix a generateName, and returns what is wrong with it. nil: DNS subdomain.
	ValidName func(name string, prefix bool) []string

	Default  func(obj T)                      // fills what the user left out; twice is the same as once
	Prepare  func(obj, old T)                 // resets what a client may not set (status, generation) before validation
	Validate func(obj, old T) field.ErrorList // the metadata too; nil: nothing but the metadata
	Warnings func(obj, old T) []string        // for Warning headers

	Columns    []Column[T]
	Selectable map[string]func(T) string // field selectors besides metadata.name and metadata.namespace
	// Unselectable is what is said of a field that objects can't be selected by, with one verb for its name.
	Unselectable string
	// Completed says how an object has ended, in its row of a table; nil: nothing.
	Completed func(T) []metav1.TableRowCondition
	// Reset lists the fields that a write of the main resource may not own: "status", "metadata.generation".
	Reset []string

	Status *Status[T] // nil: no status subresource
	Scale  *Scale[T]  // nil: no scale subresource
	// Parts are the other subresources that write a part of the object, by name: "ephemeralcontainers". They are among
	// Connects.
	Parts    map[string]Status[T]
	Connects []string // other subresources, by name: "binding", "log". What they do is a list in the API server

	// Grace returns how many seconds a delete shall wait for somebody (the kubelet) to finish the object; 0 removes it
	// at once. nil: 0.
	Grace func(obj T, asked *int64) int64

	// Deleting changes an object whose deletion begins, when it has to say that somebody must finish it first: adds a
	// finalizer. If it marks the object as being deleted, nothing else of the deletion happens now. nil: nothing.
	Deleting func(obj T, now time.Time)

	CreateOnUpdate bool     // PUT creates what does not exist
	NeedsVersion   bool     // PUT must say a resourceVersion
	Undecoded      bool     // not kept decoded in the API server's cache (Events, Leases)
	OrphanDefault  bool     // a delete without a propagation policy orphans the dependents
	OrphanWarning  string   // for such a delete; "": none
	ReturnsDeleted bool     // a delete that removes the object answers with it, not with a Status (pods, services)
	Verbs          []string // nil: all of them
}

// Version is another served version of a resource, maybe of another group.
type Version[T Object] struct {
	Group, Version string
	New            func() runtime.Object
	NewList        func() runtime.Object
	Default        func(obj runtime.Object)                   // that version's own defaults, before To
	To             func(obj runtime.Object) (T, error)        // to the stored version; obj is not changed
	From           func(obj T) (runtime.Object, error)        // from the stored version; obj is not changed
	Validate       func(obj, old T) field.ErrorList           // what writes in this version must meet besides Def.Validate
	Deprecated     string                                     // the text of the Warning header; "": not deprecated
	Columns        []Column[T]                                // nil: those of the Def
	Selectable     map[string]func(T) string                  // nil: those of the Def
	Label          func(field, value string) (string, string) // translates a field selector to the Def's; nil: unchanged
	Renamed        map[string]string                          // what errors call the fields that the Def's call otherwise
}

// Status describes the status subresource, or another one that writes a part of the object.
type Status[T Object] struct {
	Prepare  func(obj, old T) // takes back everything from old that such a write may not change
	Validate func(obj, old T) field.ErrorList
	Warnings func(obj, old T) []string // for Warning headers; nil: none
	Reset    []string                  // fields that such a write may not own: "spec"
}

// Scale describes the scale subresource.
type Scale[T Object] struct {
	Spec     func(obj T) int32
	SetSpec  func(obj T, replicas int32)
	Status   func(obj T) int32
	Selector func(obj T) string // in the form of a label selector string

	// Path is where a version keeps its replicas; nil: spec.replicas in all of them.
	Path func(version string) []string
}

// Column is one column of kubectl get.
type Column[T Object] struct {
	Name        string
	Type        string // "string" when empty; "integer", "boolean", "date"
	Format      string // "name" for the first column
	Description string
	Wide        bool // only with -o wide (priority 1)
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
