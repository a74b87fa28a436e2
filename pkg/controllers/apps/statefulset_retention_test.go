package apps

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimOf returns a claim with owners: set, pod, their earlier objects with other UIDs (set', pod'), another object; with a ~,
// they are owners but no controllers.
func claimOf(owners string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0"}}
	for _, o := range strings.Fields(owners) {
		name, notController := strings.CutPrefix(o, "~")
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "cm", UID: types.UID(name)}
		switch strings.TrimSuffix(name, "'") {
		case "set":
			ref.APIVersion, ref.Kind, ref.Name = "apps/v1", "StatefulSet", "web"
		case "pod":
			ref.Kind, ref.Name = "Pod", "web-0"
		}
		if !notController {
			ref.Controller = new(true)
		}
		c.OwnerReferences = append(c.OwnerReferences, ref)
	}
	return c
}

func ownersOf(c *corev1.PersistentVolumeClaim) string {
	var out []string
	for _, ref := range c.OwnerReferences {
		name := string(ref.UID)
		if !isController(ref) {
			name = "~" + name
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestRetention(t *testing.T) {
	const keep, del = "Retain", "Delete"
	for _, c := range []struct {
		name                    string
		whenDeleted, whenScaled string
		scaledDown              bool
		owners                  string
		want                    string // the owners afterwards, "=" if they match
	}{
		{"retain", keep, keep, false, "", "="},
		{"retain again", keep, keep, false, "set", ""},
		{"retain with another controller", keep, keep, false, "other", "="},
		{"retain with another controller and the set", keep, keep, false, "other set", "other"},
		{"delete with the set", del, keep, false, "", "set"},
		{"delete with the set, done", del, keep, false, "set", "="},
		{"delete with the set, scaled down", del, keep, true, "set", "="},
		{"delete with the set, not its controller", del, keep, false, "~set", "set"},
		{"delete when scaled, not scaled down", keep, del, false, "", "="},
		{"delete when scaled, scaled down", keep, del, true, "", "pod"},
		{"delete when scaled, scaled down and up", keep, del, false, "pod", ""},
		{"delete when scaled, once owned by the set", keep, del, true, "set", "pod"},
		{"both", del, del, false, "", "set"},
		{"both, scaled down", del, del, true, "set", "pod"},
		{"both, scaled up again", del, del, false, "pod", "set"},
		{"another owner stays", del, del, true, "~other set", "~other pod"},
		{"another controller", del, del, false, "other", "="},
		{"another controller, and the set", del, del, false, "other set", "other"},
		{"an earlier set", del, del, false, "set'", "="},
		{"an earlier pod", del, del, true, "pod'", "="},
	} {
		set := stateful(1, retain(c.whenDeleted, c.whenScaled))
		set.UID = "set"
		if c.scaledDown {
			*set.Spec.Replicas = 0
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "pod"}}
		claim := claimOf(c.owners)
		if got := retentionMatches(claim, set, pod); got != (c.want == "=") {
			t.Errorf("%s: matches is %v", c.name, got)
		}
		if c.want == "=" {
			continue
		}
		next := withRetention(claim, set, pod)
		if got := ownersOf(next); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if !retentionMatches(next, set, pod) {
			t.Errorf("%s: does not match afterwards", c.name)
		}
		if got := ownersOf(claim); got != c.owners {
			t.Errorf("%s: the claim was changed to %q", c.name, got)
		}
	}
}

func TestStaleClaim(t *testing.T) {
	for _, c := range []struct {
		whenScaled, owners string
		want               string
	}{
		{"Delete", "pod'", ""},
		{"Delete", "set", "create@new 0"},
		{"Retain", "pod'", "create@new 0"},
	} {
		set := stateful(1, retain("Retain", c.whenScaled))
		read := func(string) *corev1.PersistentVolumeClaim { return claimOf(c.owners) }
		if got := setSteps(set, nil, read); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
