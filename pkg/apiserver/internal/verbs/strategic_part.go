package verbs

import (
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fieldsOf has, by type, the indexes of a struct's fields by their JSON names. Inlined fields have none.
var fieldsOf sync.Map // of reflect.Type to map[string]int

func fieldsByName(t reflect.Type) map[string]int {
	if known, ok := fieldsOf.Load(t); ok {
		return known.(map[string]int)
	}
	fields := map[string]int{}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			fields[name] = i
		}
	}
	fieldsOf.Store(t, fields)
	return fields
}

// division divides an object into the fields that a strategic merge patch names and the others, which it can't change. The conversion of an
// object to maps and back takes most of a patch's time, and most patches are of metadata or the status alone. The managedFields, the largest
// part of most metadata, are one of the others, too, if the patch can't change them.
type division struct {
	object  reflect.Value
	patched map[int]bool                // the fields that the patch names
	managed []metav1.ManagedFieldsEntry // of patched metadata; nil: they are a part of it
}

// divide returns the division of an object, false if a key of the patch is no field of it, such as a directive.
func divide(object runtime.Object, patch map[string]any) (division, bool) {
	v := reflect.ValueOf(object)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return division{}, false
	}
	d := division{object: v.Elem(), patched: make(map[int]bool, len(patch))}
	fields := fieldsByName(d.object.Type())
	for key := range patch {
		i, ok := fields[key]
		if !ok {
			return division{}, false
		}
		d.patched[i] = true
	}
	if meta, ok := object.(metav1.Object); ok && keepsManagedFields(patch) {
		d.managed = meta.GetManagedFields()
	}
	return d, true
}

// keepsManagedFields reports whether a patch is one of metadata that can't change the managedFields.
func keepsManagedFields(patch map[string]any) bool {
	metadata, ok := patch["metadata"].(map[string]any)
	for key := range metadata {
		if key == "$patch" || key == "$retainKeys" || strings.HasSuffix(key, "managedFields") {
			return false
		}
	}
	return ok
}

// part returns an object with the fields that the patch names, or with the others. It shares them.
func (d division) part(patched bool) runtime.Object {
	out := reflect.New(d.object.Type())
	for i := range d.object.NumField() {
		if d.patched[i] == patched {
			out.Elem().Field(i).Set(d.object.Field(i))
		}
	}
	if meta, ok := out.Interface().(metav1.Object); ok && d.managed != nil {
		meta.SetManagedFields(nil)
		if !patched {
			meta.SetManagedFields(d.managed)
		}
	}
	return out.Interface().(runtime.Object)
}

// complete sets the fields of a patched part that the patch does not name to copies of the object's.
func (d division) complete(part runtime.Object) {
	copied := d.part(false).DeepCopyObject()
	rest, out := reflect.ValueOf(copied).Elem(), reflect.ValueOf(part).Elem()
	for i := range rest.NumField() {
		if !d.patched[i] {
			out.Field(i).Set(rest.Field(i))
		}
	}
	if d.managed != nil {
		part.(metav1.Object).SetManagedFields(copied.(metav1.Object).GetManagedFields())
	}
}
