package check

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// quick pairs the byte-wise checks with the library's.
var quick = []struct {
	name    string
	fast    func(string) bool
	library func(string) []string
}{
	{"label", isDNSLabel, utilvalidation.IsDNS1123Label},
	{"subdomain", isSubdomain, utilvalidation.IsDNS1123Subdomain},
	{"qualified", isQualified, utilvalidation.IsQualifiedName},
	{"value", isLabelValue, utilvalidation.IsValidLabelValue},
	{"config key", isConfigKey, utilvalidation.IsConfigMapKey},
	{"port name", isPortName, utilvalidation.IsValidPortName},
}

func FuzzQuickNames(f *testing.F) {
	for _, s := range []string{"", "a", "-", "a-", "-a", "a.b", "a..b", ".a", "a.", "a.-b", "a-.b", "A", "a_b", "a/b", "a/b/c", "/a", "a/", "..", ".", "..a", "a--b",
		"1", "http", "a.b/C_d", "ä", "a\n", strings.Repeat("a", 15), strings.Repeat("a", 16), strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127), strings.Repeat("b", 253), strings.Repeat("b", 254), strings.Repeat("a", 253) + "/x", strings.Repeat("a", 254) + "/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, q := range quick {
			if fast, library := q.fast(s), len(q.library(s)) == 0; fast != library {
				t.Errorf("%s %q: got %v, the library returns %v", q.name, s, fast, library)
			}
		}
	})
}

// TestMeta checks that the quick check of metadata agrees with the library.
func TestMeta(t *testing.T) {
	yes := true
	tests := map[string]func(*metav1.ObjectMeta){
		"plain":            func(*metav1.ObjectMeta) {},
		"no name":          func(m *metav1.ObjectMeta) { m.Name = "" },
		"bad name":         func(m *metav1.ObjectMeta) { m.Name = "A" },
		"bad generateName": func(m *metav1.ObjectMeta) { m.GenerateName = "A-" },
		"generateName":     func(m *metav1.ObjectMeta) { m.GenerateName = "a-" },
		"no namespace":     func(m *metav1.ObjectMeta) { m.Namespace = "" },
		"bad namespace":    func(m *metav1.ObjectMeta) { m.Namespace = "a.b" },
		"bad label":        func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a b": ""} },
		"bad value":        func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "a b"} },
		"annotation":       func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"Example.com/A": "any thing"} },
		"bad annotation":   func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a b": ""} },
		"long annotation":  func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a": strings.Repeat("a", 256<<10)} },
		"generation":       func(m *metav1.ObjectMeta) { m.Generation = -1 },
		"finalizer":        func(m *metav1.ObjectMeta) { m.Finalizers = []string{"example.com/a"} },
		"bad finalizer":    func(m *metav1.ObjectMeta) { m.Finalizers = []string{"a b"} },
		"owner": func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "n", UID: "u"}}
		},
		"bad owner": func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/", Kind: "K", Name: "n", UID: "u"}}
		},
		"owner of slashes": func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/b/c", Kind: "K", Name: "n", UID: "u"}}
		},
		"event as owner": func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Event", Name: "n", UID: "u"}}
		},
		"two controllers": func(m *metav1.ObjectMeta) {
			ref := metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "n", UID: "u", Controller: &yes}
			m.OwnerReferences = []metav1.OwnerReference{ref, ref}
		},
		"managers": func(m *metav1.ObjectMeta) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a", Operation: "Update", FieldsType: "FieldsV1"}}
		},
		"bad manager": func(m *metav1.ObjectMeta) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a", Operation: "Delete"}}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			obj := &corev1.Pod{}
			obj.Name, obj.Namespace = "n", "ns"
			change(&obj.ObjectMeta)
			want := validation.ValidateObjectMetaAccessor(obj, true, validation.NameIsDNSSubdomain, Metadata).ToAggregate()
			if name == "bad finalizer" {
				want = append(validation.ValidateObjectMetaAccessor(obj, true, validation.NameIsDNSSubdomain, Metadata), unqualifiedFinalizer("a b", Metadata.Child("finalizers").Index(0))).ToAggregate()
			}
			if got := Meta(obj, true, validation.NameIsDNSSubdomain).ToAggregate(); text(got) != text(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMetaUpdate(t *testing.T) {
	now := metav1.Unix(1, 0)
	tests := map[string]func(obj, old *metav1.ObjectMeta){
		"nothing":    func(_, _ *metav1.ObjectMeta) {},
		"name":       func(obj, _ *metav1.ObjectMeta) { obj.Name = "x" },
		"namespace":  func(obj, _ *metav1.ObjectMeta) { obj.Namespace = "x" },
		"uid":        func(obj, _ *metav1.ObjectMeta) { obj.UID = "x" },
		"time":       func(obj, _ *metav1.ObjectMeta) { obj.CreationTimestamp = now },
		"version":    func(obj, _ *metav1.ObjectMeta) { obj.ResourceVersion = "" },
		"generation": func(_, old *metav1.ObjectMeta) { old.Generation = 2 },
		"deleted":    func(obj, _ *metav1.ObjectMeta) { obj.DeletionTimestamp = &now },
		"finalizer in the end": func(obj, old *metav1.ObjectMeta) {
			obj.DeletionTimestamp, old.DeletionTimestamp = &now, &now
			obj.Finalizers = []string{"example.com/a"}
		},
		"label": func(obj, _ *metav1.ObjectMeta) { obj.Labels = map[string]string{"-": ""} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			obj, old := &corev1.Pod{}, &corev1.Pod{}
			obj.Name, obj.Namespace, obj.ResourceVersion = "n", "ns", "1"
			old.ObjectMeta = obj.ObjectMeta
			change(&obj.ObjectMeta, &old.ObjectMeta)
			want := validation.ValidateObjectMetaAccessorUpdate(obj, old, Metadata).ToAggregate()
			if got := MetaUpdate(obj, old).ToAggregate(); text(got) != text(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
