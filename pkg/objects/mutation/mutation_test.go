package mutation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "7", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "a"}}},
	}
}

// TestDetector changes a shared object while it is shared, after it was dropped, and not at all.
func TestDetector(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(d *Detector, p *corev1.Pod)
		want   string // of the only message; "": none
	}{
		{"unchanged", func(d *Detector, p *corev1.Pod) { d.Drop(p); d.Check() }, ""},
		{"map", func(d *Detector, p *corev1.Pod) { p.Labels["app"] = "db"; d.Check() },
			`cache: a reader changed the shared object ns/p (resourceVersion 7): metadata.labels.app was "web" and is "db"`},
		{"slice", func(d *Detector, p *corev1.Pod) { p.Spec.Containers[0].Image = "b"; d.Reset(); d.Check() },
			`cache: a reader changed the shared object ns/p (resourceVersion 7): spec.containers[0].image was "a" and is "b"`},
		{"added", func(d *Detector, p *corev1.Pod) { p.Spec.NodeName = "n"; d.Share(p); d.Drop(p) },
			`cache: a reader changed the shared object ns/p (resourceVersion 7): spec.nodeName was null and is "n"`},
		{"dropped before", func(d *Detector, p *corev1.Pod) { d.Drop(p); p.Labels["app"] = "db"; d.Check() },
			`cache: a reader changed the shared object ns/p (resourceVersion 7): metadata.labels.app was "web" and is "db"`},
		{"dropped long before", func(d *Detector, p *corev1.Pod) {
			d.Drop(p)
			p.Labels["app"] = "db"
			for range maxDropped {
				other := pod("other")
				d.Share(other)
				d.Drop(other)
			}
			d.Check()
		}, `cache: a reader changed the shared object ns/p (resourceVersion 7): metadata.labels.app was "web" and is "db"`},
		{"not in JSON", func(d *Detector, p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{}; d.Check() },
			`cache: a reader changed the shared object ns/p (resourceVersion 7): fields that JSON does not show`},
		{"not recorded", func(d *Detector, _ *corev1.Pod) {
			other := pod("other")
			d.Drop(other)
			other.Labels["app"] = "db"
			d.Check()
		}, ""},
	} {
		var messages []string
		d := NewDetector("cache", func(m string) { messages = append(messages, m) })
		p := pod("p")
		d.Share(p)
		c.change(d, p)
		if got := strings.Join(messages, "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestNew: a Detector panics in builds with the race detector, and costs nothing in others.
func TestNew(t *testing.T) {
	d := New("cache")
	p := pod("p")
	defer func() {
		if panicked := recover() != nil; panicked != Enabled {
			t.Errorf("panicked: %t, want %t", panicked, Enabled)
		}
	}()
	if !Enabled {
		if n := testing.AllocsPerRun(10, func() { d.Share(p); d.Drop(p); d.Check(); d.Reset() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	d.Share(objects.Object(p))
	p.Labels["app"] = "db"
	d.Check()
}
