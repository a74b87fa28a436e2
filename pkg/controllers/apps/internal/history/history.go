// Package history owns the ControllerRevisions of StatefulSets and DaemonSets. A revision holds a strategic merge patch that
// replaces the pod template of its owner by an earlier one. Revisions are numbered: the one with the highest number is the
// owner's newest, and a rollback gives the revision that it returns to the next number. Names and hashes are Kubernetes' own,
// so that pods keep the label of their revision when another controller manager takes over.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/minikctl/minikctl/pkg/objects"
)

// HashLabel is the label with the hash of a StatefulSet's revision. A DaemonSet's revisions have the label
// controller-revision-hash.
const HashLabel = "controller.kubernetes.io/hash"

// maxPrefix bounds the part of a revision's name before its hash, in bytes.
const maxPrefix = 223

// Patch returns the data of a template's revision.
func Patch(template *corev1.PodTemplateSpec) ([]byte, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	var fields map[string]any // sorts the keys
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// Restore returns obj with a revision's data applied. obj is not changed.
func Restore[T any](obj *T, revision *appsv1.ControllerRevision) (*T, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	restored := new(T)
	data, err = strategicpatch.StrategicMergePatch(data, revision.Data.Raw, restored)
	if err != nil {
		return nil, err
	}
	return restored, json.Unmarshal(data, restored)
}

// New returns the revision of owner's template, in the form that StatefulSets use. Create names it anew if that name exists.
func New(owner objects.Object, kind schema.GroupVersionKind, template *corev1.PodTemplateSpec, number int64, collisions *int32) (*appsv1.ControllerRevision, error) {
	data, err := Patch(template)
	if err != nil {
		return nil, err
	}
	hash := hashOf(data, collisions)
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[HashLabel] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(owner, hash), Namespace: owner.GetNamespace(),
			Labels: labels, Annotations: maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}, nil
}

func name(owner objects.Object, hash string) string {
	prefix := owner.GetName()
	return prefix[:min(len(prefix), maxPrefix)] + "-" + hash
}

// hashOf returns the hash of a revision's data. collisions changes it when another revision has its name already.
func hashOf(data []byte, collisions *int32) string {
	h := fnv.New32()
	h.Write(data) // writing to a hash does not fail
	if collisions != nil {
		h.Write(strconv.AppendInt(nil, int64(*collisions), 10))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// Equal reports whether two revisions hold the same data.
func Equal(a, b *appsv1.ControllerRevision) bool {
	return bytes.Equal(a.Data.Raw, b.Data.Raw) && equality.Semantic.DeepEqual(a.Data.Object, b.Data.Object)
}

// Sort sorts revisions by number, those of the same number by age and name.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Next returns the number of the next revision: one more than the highest.
func Next(revisions []*appsv1.ControllerRevision) int64 {
	var last int64
	for _, r := range revisions {
		last = max(last, r.Revision)
	}
	return last + 1
}

// Excess returns the oldest of the sorted revisions beyond the limit. Live revisions don't count, and are not returned.
// A negative limit means none.
func Excess(sorted []*appsv1.ControllerRevision, live func(*appsv1.ControllerRevision) bool, limit int32) []*appsv1.ControllerRevision {
	old := slices.DeleteFunc(slices.Clone(sorted), live)
	if limit < 0 || len(old) <= int(limit) {
		return nil
	}
	return old[:len(old)-int(limit)]
}
