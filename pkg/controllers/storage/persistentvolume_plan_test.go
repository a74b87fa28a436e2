package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

func testClaim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default", UID: "1", Annotations: map[string]string{}}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	c.Status.Phase = corev1.ClaimPending
	if change != nil {
		change(c)
	}
	return c
}

func testVolume(name, size string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	v.Status.Phase = corev1.VolumeAvailable
	if change != nil {
		change(v)
	}
	return v
}

func claimedBy(name string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: uid}
	}
}

// TestBestVolume: a claim gets the volume that names it, or else the smallest of those with the fewest access modes.
func TestBestVolume(t *testing.T) {
	modes := func(m ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = m }
	}
	block := corev1.PersistentVolumeBlock
	for _, c := range []struct {
		name    string
		claim   func(*corev1.PersistentVolumeClaim)
		volumes []*corev1.PersistentVolume
		delay   bool
		want    string
	}{
		{name: "none"},
		{name: "too small", volumes: []*corev1.PersistentVolume{testVolume("a", "4Gi", nil)}},
		{name: "the smallest", volumes: []*corev1.PersistentVolume{testVolume("a", "9Gi", nil), testVolume("b", "6Gi", nil), testVolume("c", "7Gi", nil)}, want: "b"},
		{name: "the first of equal ones", volumes: []*corev1.PersistentVolume{testVolume("b", "6Gi", nil), testVolume("a", "6Gi", nil)}, want: "a"},
		{name: "fewer access modes before size", volumes: []*corev1.PersistentVolume{
			testVolume("a", "5Gi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany)), testVolume("b", "50Gi", nil)}, want: "b"},
		{name: "other access mode", volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", modes(corev1.ReadOnlyMany))}},
		{name: "not available", volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumePending })}},
		{name: "volume mode", volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block })}},
		{name: "selector", claim: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
		}, volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", nil), testVolume("b", "8Gi", func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "ssd"} })}, want: "b"},
		{name: "class", claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("gold") },
			volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", nil), testVolume("b", "8Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "gold" })}, want: "b"},
		{name: "the one that names the claim", volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", nil), testVolume("b", "90Gi", claimedBy("data", ""))}, want: "b"},
		{name: "one that names another claim", volumes: []*corev1.PersistentVolume{testVolume("b", "90Gi", claimedBy("data", "other"))}},
		{name: "delayed: left to the scheduler", delay: true, volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", nil)}},
		{name: "delayed: named", delay: true, volumes: []*corev1.PersistentVolume{testVolume("a", "5Gi", claimedBy("data", "1"))}, want: "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := bestVolume(testClaim(c.claim), c.volumes, c.delay)
			if err != nil {
				t.Fatal(err)
			}
			name := ""
			if got != nil {
				name = got.Name
			}
			if name != c.want {
				t.Errorf("got %q, want %q", name, c.want)
			}
		})
	}
}

// TestPlanClaim: each state of a claim has one next step, with Kubernetes' events.
func TestPlanClaim(t *testing.T) {
	named := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }
	completed := func(c *corev1.PersistentVolumeClaim) {
		named(c)
		c.Annotations[volume.AnnBindCompleted] = "yes"
	}
	class := func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("gold") }
	free, taken, own := testVolume("v", "5Gi", nil), testVolume("v", "5Gi", claimedBy("other", "2")), testVolume("v", "5Gi", claimedBy("data", "1"))
	for _, c := range []struct {
		name  string
		claim func(*corev1.PersistentVolumeClaim)
		see   claimView
		want  string // bind, class, provision, or the phase with the event
	}{
		{"a match", nil, claimView{match: free, defaultClass: "standard"}, "bind"},
		{"no match", nil, claimView{}, "Pending FailedBinding no persistent volumes available for this claim and no storage class is set"},
		{"default class", nil, claimView{defaultClass: "standard"}, "class standard"},
		{"the class is explicitly empty", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }, claimView{defaultClass: "standard"},
			"Pending FailedBinding no persistent volumes available for this claim and no storage class is set"},
		{"class", class, claimView{defaultClass: "standard"}, "provision"},
		{"delayed", class, claimView{delay: true}, "Pending WaitForFirstConsumer waiting for first consumer to be created before binding"},
		{"delayed, a pod", class, claimView{delay: true, waiting: []string{"a"}}, "Pending WaitForPodScheduled waiting for pod a to be scheduled"},
		{"delayed, pods", class, claimView{delay: true, waiting: []string{"a", "b"}}, "Pending WaitForPodScheduled waiting for pods a,b to be scheduled"},
		{"delayed, scheduled", func(c *corev1.PersistentVolumeClaim) { class(c); c.Annotations[volume.AnnSelectedNode] = "n" }, claimView{delay: true}, "provision"},
		{"named, missing", named, claimView{}, "Pending"},
		{"named, free", named, claimView{named: free}, "bind"},
		{"named, its own", named, claimView{named: own}, "bind"},
		{"named, taken", named, claimView{named: taken}, `Pending FailedBinding volume "v" already bound to a different claim.`},
		{"named by the binder, taken", func(c *corev1.PersistentVolumeClaim) { named(c); c.Annotations[volume.AnnBoundByController] = "yes" }, claimView{named: taken},
			`FailedBinding volume "v" already bound to a different claim. error invalid binding of claim "default/data" to volume "v": volume already claimed by "default/other"`},
		{"named, small", named, claimView{named: testVolume("v", "1Gi", nil)}, `Pending VolumeMismatch Cannot bind to requested volume "v": requested PV is too small`},
		{"named, other class", func(c *corev1.PersistentVolumeClaim) { named(c); class(c) }, claimView{named: free},
			`Pending VolumeMismatch Cannot bind to requested volume "v": storageClassName does not match`},
		{"bound", completed, claimView{named: own}, "bind"},
		{"bound, the volume forgot", completed, claimView{named: free}, "bind"},
		{"bound, the volume is gone", completed, claimView{}, "Lost ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!"},
		{"bound, the name is gone", func(c *corev1.PersistentVolumeClaim) { completed(c); c.Spec.VolumeName = "" }, claimView{},
			"Lost ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"},
		{"bound, taken", completed, claimView{named: taken}, "Lost ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(planClaim(testClaim(c.claim), c.see)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func describe(p claimPlan) string {
	var out []string
	add := func(set bool, words ...string) {
		if set {
			out = append(out, words...)
		}
	}
	add(p.bind != nil, "bind")
	add(p.class != "", "class", p.class)
	add(p.provision, "provision")
	add(p.phase != "", string(p.phase))
	add(p.event.reason != "", p.event.reason, p.event.message)
	if p.err != nil {
		out = append(out, "error", p.err.Error())
	}
	return strings.Join(out, " ")
}

// TestPlanVolume: each state of a volume has one next step.
func TestPlanVolume(t *testing.T) {
	provisioned := func(v *corev1.PersistentVolume) {
		claimedBy("data", "1")(v)
		v.Annotations[volume.AnnDynamicallyProvisioned] = "p"
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	with := func(name string) *corev1.PersistentVolumeClaim {
		return testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = name })
	}
	block := corev1.PersistentVolumeBlock
	for _, c := range []struct {
		name   string
		volume func(*corev1.PersistentVolume)
		claim  *corev1.PersistentVolumeClaim
		want   volumeStep
	}{
		{"free", nil, nil, available},
		{"reserved by a user", claimedBy("data", ""), nil, available},
		{"the claim is gone", claimedBy("data", "1"), nil, reclaim},
		{"the claim has no volume yet", claimedBy("data", "1"), with(""), offer},
		{"the claim has another mode", func(v *corev1.PersistentVolume) { claimedBy("data", "1")(v); v.Spec.VolumeMode = &block }, with(""), mismatch},
		{"the claim has this volume", claimedBy("data", "1"), with("v"), bound},
		{"the claim has another volume", claimedBy("data", "1"), with("w"), release},
		{"the claim has another volume, and this one was made for it", provisioned, with("w"), reclaim},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := planVolume(testVolume("v", "5Gi", c.volume), c.claim); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// TestClaimStatus: the capacity follows the volume when the phase changes, and not later.
func TestClaimStatus(t *testing.T) {
	v := testVolume("v", "8Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("fast") })
	size := func(s corev1.PersistentVolumeClaimStatus) string {
		q := s.Capacity[corev1.ResourceStorage]
		return q.String()
	}
	bound, err := claimStatus(corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}, corev1.ClaimBound, v)
	if err != nil || size(bound) != "8Gi" || *bound.CurrentVolumeAttributesClassName != "fast" {
		t.Errorf("bound: got %+v, %v", bound, err)
	}
	grown := testVolume("v", "9Gi", nil)
	if later, err := claimStatus(bound, corev1.ClaimBound, grown); err != nil || size(later) != "8Gi" {
		t.Errorf("a bound claim's capacity follows the volume: got %s, %v", size(later), err)
	}
	grown.Annotations[preResizeCapacity] = "6Gi"
	if before, err := claimStatus(corev1.PersistentVolumeClaimStatus{}, corev1.ClaimBound, grown); err != nil || size(before) != "6Gi" {
		t.Errorf("before the resize: got %s, %v", size(before), err)
	}
	if lost, err := claimStatus(bound, corev1.ClaimLost, nil); err != nil || !cmp.Equal(lost, corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost}) {
		t.Errorf("lost: got %+v, %v", lost, err)
	}
	if _, err := claimStatus(bound, corev1.ClaimPending, testVolume("v", "0", func(v *corev1.PersistentVolume) { v.Spec.Capacity = nil })); err == nil {
		t.Error("a volume without capacity is no error")
	}
}

// TestDeleteHostPath: only what is below /tmp is deleted, and nothing that a link leads to.
func TestDeleteHostPath(t *testing.T) {
	dir, err := os.MkdirTemp(deletable, "hostpath")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	data, link := filepath.Join(dir, "data", "more"), filepath.Join(dir, "link")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/tmp", "/tmp/", "/tmp/../etc", "/etc/tmp/x", "relative"} {
		if err := deleteHostPath(path, true); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
	if err := deleteHostPath(data, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Errorf("deleted for a simulated pod: %v", err)
	}
	if err := deleteHostPath(filepath.Dir(data), true); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(data)); !os.IsNotExist(err) {
		t.Errorf("not deleted: %v", err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if err := deleteHostPath(link, true); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("the target of a link is deleted: %v", err)
	}
}
