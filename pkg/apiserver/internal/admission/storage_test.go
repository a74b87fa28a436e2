package admission

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

func storageClass(name string, age time.Duration, annotations map[string]string, expands bool) *storagev1.StorageClass {
	made := metav1.NewTime(time.Unix(1_000_000, 0).Add(-age))
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: made, Annotations: annotations}, AllowVolumeExpansion: &expands}
}

func newClaim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
	if change != nil {
		change(c)
	}
	return c
}

func TestDefaultStorageClass(t *testing.T) {
	is := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	beta := map[string]string{"storageclass.beta.kubernetes.io/is-default-class": "true"}
	none := ""
	for name, c := range map[string]struct {
		classes []objects.Object
		claim   *corev1.PersistentVolumeClaim
		want    *string
	}{
		"none there":             {nil, newClaim(nil), nil},
		"none default":           {[]objects.Object{storageClass("a", 0, nil, false)}, newClaim(nil), nil},
		"the default":            {[]objects.Object{storageClass("a", 0, nil, false), storageClass("b", 0, is, false)}, newClaim(nil), new("b")},
		"by the old annotation":  {[]objects.Object{storageClass("a", 0, beta, false)}, newClaim(nil), new("a")},
		"the newest":             {[]objects.Object{storageClass("a", time.Hour, is, false), storageClass("b", 0, is, false)}, newClaim(nil), new("b")},
		"the first of equal age": {[]objects.Object{storageClass("b", 0, is, false), storageClass("a", 0, is, false)}, newClaim(nil), new("a")},
		"no class requested":     {[]objects.Object{storageClass("a", 0, is, false)}, newClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &none }), &none},
		"named by annotation": {[]objects.Object{storageClass("a", 0, is, false)}, newClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "x"}
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			r.Put("storageclasses.storage.k8s.io", c.classes...)
			if err := admit(t.Context(), r, create(claims, c.claim)); err != nil {
				t.Fatal(err)
			}
			got := c.claim.Spec.StorageClassName
			if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("the class is %v, want %v", got, c.want)
			}
			if !slices.Equal(c.claim.Finalizers, []string{"kubernetes.io/pvc-protection"}) {
				t.Errorf("finalizers are %v", c.claim.Finalizers)
			}
		})
	}
}

func TestDefaultIngressClass(t *testing.T) {
	r := newReader()
	r.Put("ingressclasses.networking.k8s.io", &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "n",
		Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}}})
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{"none named": {nil, "n"}, "named by annotation": {map[string]string{"kubernetes.io/ingress.class": "x"}, ""}} {
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "i", Namespace: "ns", Annotations: c.annotations}}
		if err := admit(t.Context(), r, create(schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, i)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if i.Spec.IngressClassName != nil {
			got = *i.Spec.IngressClassName
		}
		if got != c.want {
			t.Errorf("%s: the class is %q, want %q", name, got, c.want)
		}
	}
}

func TestClaimResize(t *testing.T) {
	r := newReader()
	r.Put("storageclasses.storage.k8s.io", storageClass("grows", 0, nil, true), storageClass("fixed", 0, nil, false))
	claim := func(class, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return newClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Status.Phase = &class, phase
			c.Spec.Resources.Requests = list("storage", size)
		})
	}
	const growing = `persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`
	for name, c := range map[string]struct {
		old  *corev1.PersistentVolumeClaim
		size string
		want string
	}{
		"grows":          {claim("grows", "1Gi", corev1.ClaimBound), "2Gi", ""},
		"same":           {claim("fixed", "1Gi", corev1.ClaimPending), "1Gi", ""},
		"not bound":      {claim("grows", "1Gi", corev1.ClaimPending), "2Gi", `persistentvolumeclaims "c" is forbidden: Only bound persistent volume claims can be expanded`},
		"fixed":          {claim("fixed", "1Gi", corev1.ClaimBound), "2Gi", growing},
		"unknown class":  {claim("gone", "1Gi", corev1.ClaimBound), "2Gi", growing},
		"without class":  {claim("", "1Gi", corev1.ClaimBound), "2Gi", growing},
		"becomes less":   {claim("fixed", "2Gi", corev1.ClaimBound), "1Gi", ""},
		"by a smaller q": {claim("grows", "1Gi", corev1.ClaimBound), "1025Mi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := c.old.DeepCopy()
			now.Spec.Resources.Requests = list("storage", c.size)
			a := create(claims, now)
			a.Operation, a.Old = stage.Update, c.old
			err := claimResize{r}.Validate(t.Context(), a)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
