package storage

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDefault: the newest of the marked classes is the default.
func TestDefault(t *testing.T) {
	class := func(name string, age int, annotation string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0)),
			Annotations: map[string]string{annotation: "true"}}}
	}
	const mark = "storageclass.kubernetes.io/is-default-class"
	for want, list := range map[string][]*storagev1.StorageClass{
		"":  {class("a", 1, "other")},
		"b": {class("a", 2, mark), class("b", 1, mark), class("c", 0, "other")},
		"c": {class("d", 1, mark), class("c", 1, "storageclass.beta.kubernetes.io/is-default-class")},
	} {
		if got := Default(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
