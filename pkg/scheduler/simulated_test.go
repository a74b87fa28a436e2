package scheduler

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestMarks: the end of a mark undoes the changes since, or keeps them for the mark around it.
func TestMarks(t *testing.T) {
	const of = framework.PersistentVolume
	volume := func(name, phase string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeStatus{Phase: corev1.PersistentVolumePhase(phase)}}
	}
	w := watchedOf(map[framework.EventResource][]objects.Object{of: {volume("a", "1"), volume("b", "1")}})
	all := SimulatedObjects{w}
	mirror := map[string]string{} // what a follower knows
	followed(w, of, func(ch client.Change[*corev1.PersistentVolume]) {
		if ch.Deleted() {
			delete(mirror, ch.Old.Name)
			return
		}
		if had := mirror[ch.New.Name]; !ch.Added() && had != string(ch.Old.Status.Phase) {
			t.Errorf("the change of %s is from %s, and was %s", ch.New.Name, ch.Old.Status.Phase, had)
		}
		mirror[ch.New.Name] = string(ch.New.Status.Phase)
	})
	expect := func(when string, want ...string) {
		t.Helper()
		var got, known []string
		for obj := range all.All(of) {
			got = append(got, obj.GetName()+string(obj.(*corev1.PersistentVolume).Status.Phase))
		}
		for name, phase := range mirror {
			known = append(known, name+phase)
		}
		slices.Sort(got)
		slices.Sort(known)
		if !slices.Equal(got, want) || !slices.Equal(known, want) {
			t.Errorf("%s: got %v, and a follower %v; want %v", when, got, known, want)
		}
	}
	expect("at first", "a1", "b1")
	outer := w.mark()
	all.Put(of, volume("a", "2"))
	inner := w.mark()
	all.Put(of, volume("a", "3"))
	all.Put(of, volume("c", "1"))
	all.Delete(of, objects.Key{Name: "b"})
	all.Delete(of, objects.Key{Name: "c"})
	all.Put(of, volume("c", "2"))
	all.Delete(of, objects.Key{Name: "never"})
	expect("changed", "a3", "c2")
	inner(true)
	expect("inner undone", "a2", "b1")
	inner = w.mark()
	all.Put(of, volume("a", "4"))
	inner(false)
	expect("inner kept", "a4", "b1")
	outer(true)
	expect("outer undone", "a1", "b1")
	all.Put(of, volume("b", "2"))
	kept := w.mark()
	all.Put(of, volume("b", "3"))
	kept(false)
	expect("kept", "a1", "b3")
	if len(w.undos) != 0 || w.marks != 0 {
		t.Errorf("%d changes and %d marks are left", len(w.undos), w.marks)
	}
	if got := fmt.Sprint(w.changed()); got != "11" {
		t.Errorf("%s changes", got)
	}
}
