package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/objects"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func rangeOf(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: "ns"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func TestLimitRangerFills(t *testing.T) {
	r := newReader()
	r.Put("limitranges", rangeOf(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer,
		Default: list("cpu", "1", "memory", "1Gi"), DefaultRequest: list("cpu", "500m", "memory", "256Mi")}))
	pod := newPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = list("cpu", "2")
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Limits: list("cpu", "1", "memory", "1Gi"), Requests: list("cpu", "1")}}}
	})
	if err := admit(t.Context(), r, create(pods, pod)); err != nil {
		t.Fatal(err)
	}
	want := "LimitRanger plugin set: cpu, memory request for container c; memory limit for container c; memory request for init container i"
	if got := pod.Annotations[limitRangerAnnotation]; got != want {
		t.Errorf("the annotation is %q, want %q", got, want)
	}
	c := pod.Spec.Containers[0].Resources
	if got := c.Limits[corev1.ResourceCPU]; got.String() != "2" {
		t.Errorf("the limit of the pod has become %s", got.String())
	}
	if got := c.Requests[corev1.ResourceMemory]; got.String() != "256Mi" {
		t.Errorf("the request of memory is %s", got.String())
	}
}

func TestLimitRangerBounds(t *testing.T) {
	claim := func(size string) objects.Object {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list("storage", size)}}}
	}
	pod := func(requests, limits corev1.ResourceList) objects.Object {
		return newPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		})
	}
	container, whole, storage := corev1.LimitTypeContainer, corev1.LimitTypePod, corev1.LimitTypePersistentVolumeClaim
	for name, c := range map[string]struct {
		limit corev1.LimitRangeItem
		obj   objects.Object
		want  string // the text after "is forbidden: "; "": allowed
	}{
		"within":              {corev1.LimitRangeItem{Type: container, Min: list("cpu", "100m"), Max: list("cpu", "1")}, pod(list("cpu", "200m"), list("cpu", "1")), ""},
		"below the minimum":   {corev1.LimitRangeItem{Type: container, Min: list("cpu", "200m")}, pod(list("cpu", "100m"), nil), "minimum cpu usage per Container is 200m, but request is 100m"},
		"no request":          {corev1.LimitRangeItem{Type: container, Min: list("cpu", "200m")}, pod(nil, nil), "minimum cpu usage per Container is 200m.  No request is specified"},
		"limit below minimum": {corev1.LimitRangeItem{Type: container, Min: list("cpu", "200m")}, pod(list("cpu", "200m"), list("cpu", "100m")), "minimum cpu usage per Container is 200m, but limit is 100m"},
		"no limit":            {corev1.LimitRangeItem{Type: container, Max: list("memory", "1Gi")}, pod(nil, nil), "maximum memory usage per Container is 1Gi.  No limit is specified"},
		"two at once": {corev1.LimitRangeItem{Type: container, Max: list("memory", "1Gi", "cpu", "1")}, pod(nil, list("memory", "1536Mi", "cpu", "2")),
			"[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but limit is 1536Mi]"},
		"ratio":            {corev1.LimitRangeItem{Type: whole, MaxLimitRequestRatio: list("memory", "2")}, pod(list("memory", "100Mi"), list("memory", "300Mi")), "memory max limit to request ratio per Pod is 2, but provided ratio is 3.000000"},
		"ratio of nothing": {corev1.LimitRangeItem{Type: whole, MaxLimitRequestRatio: list("memory", "2")}, pod(nil, nil), "memory max limit to request ratio per Pod is 2, but no request is specified or request is 0"},
		"pod as a whole":   {corev1.LimitRangeItem{Type: whole, Max: list("cpu", "1")}, pod(list("cpu", "2"), list("cpu", "2")), "maximum cpu usage per Pod is 1, but limit is 2"},
		"what a class costs": {corev1.LimitRangeItem{Type: whole, Max: list("cpu", "1")}, newPod(func(p *corev1.Pod) {
			p.Spec.RuntimeClassName = new("vm")
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("cpu", "1")}
		}), ""},
		"the pod itself": {corev1.LimitRangeItem{Type: whole, Max: list("cpu", "1", "memory", "1Gi", "hugepages-2Mi", "2Mi")}, newPod(func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("cpu", "2", "memory", "1Gi", "hugepages-2Mi", "4Mi")}
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list("cpu", "1", "memory", "2Gi", "hugepages-2Mi", "2Mi")}
		}), "maximum cpu usage per Pod is 1, but limit is 2"},
		"claim":              {corev1.LimitRangeItem{Type: storage, Min: list("storage", "1Gi"), Max: list("storage", "2Gi")}, claim("1Gi"), ""},
		"claim too large":    {corev1.LimitRangeItem{Type: storage, Max: list("storage", "2Gi")}, claim("3Gi"), "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"},
		"claim too small":    {corev1.LimitRangeItem{Type: storage, Min: list("storage", "2Gi")}, claim("1Gi"), "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"},
		"claim is no pod":    {corev1.LimitRangeItem{Type: container, Max: list("storage", "1Gi")}, claim("3Gi"), ""},
		"other kinds ignore": {corev1.LimitRangeItem{Type: "example.com/thing", Max: list("cpu", "1")}, pod(nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			r.Put("limitranges", rangeOf(c.limit))
			gr := pods
			if _, ok := c.obj.(*corev1.PersistentVolumeClaim); ok {
				gr = claims
			}
			err := admit(t.Context(), r, create(gr, c.obj))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), " is forbidden: "+c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestDerived checks that a value is computed again only after a change of its objects.
func TestDerived(t *testing.T) {
	r := stagetest.NewReader()
	made := 0
	d := derive(stage.Reader(r), limitRanges, func(all []objects.Object) int {
		made++
		return len(all)
	})
	for _, c := range []struct {
		change  func()
		n, made int
	}{
		{func() {}, 0, 0},
		{func() { r.Put("limitranges", rangeOf()) }, 1, 1},
		{func() {}, 1, 1},
		{func() { r.Delete("limitranges", "ns", "limits") }, 0, 2}, // no objects: the earlier value is dropped
		{func() {}, 0, 2},
	} {
		c.change()
		n, ok, err := d.get(t.Context())
		if err != nil || n != c.n || ok != (c.n > 0) || made != c.made {
			t.Errorf("got %d, %v, %v, made %d times; want %d, %d", n, ok, err, made, c.n, c.made)
		}
	}
}
