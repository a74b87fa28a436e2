package eviction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Config
		want string // the thresholds, or the error after "!"
	}{
		{"none", Config{}, ""},
		{"hard", Config{Hard: map[string]string{"nodefs.available": "10%", "memory.available": "100Mi"}},
			"memory.available<100Mi allocatableMemory.available<100Mi nodefs.available<10%"},
		{"soft", Config{Soft: map[string]string{"pid.available": "5"}, SoftGracePeriod: map[string]string{"pid.available": "90s"},
			MinimumReclaim: map[string]string{"pid.available": "2"}}, "pid.available<5+2 for 1m30s"},
		{"switched off", Config{Hard: map[string]string{"nodefs.available": "0%", "imagefs.available": "100%"}}, ""},
		{"unknown", Config{Hard: map[string]string{"cpu": "1"}}, "!evictionHard: unsupported eviction signal cpu"},
		{"negative", Config{Hard: map[string]string{"memory.available": "-1"}}, "!evictionHard: memory.available: -1 is not positive"},
		{"too much", Config{Hard: map[string]string{"memory.available": "101%"}}, "!evictionHard: memory.available: 101% is not from 0% to 100%"},
		{"no grace", Config{Soft: map[string]string{"memory.available": "1"}},
			"!evictionSoft: grace period must be specified for the soft eviction threshold memory.available"},
		{"negative grace", Config{Soft: map[string]string{"memory.available": "1"}, SoftGracePeriod: map[string]string{"memory.available": "-1s"}},
			"!evictionSoft: grace period of memory.available: it is negative"},
		{"unknown reclaim", Config{MinimumReclaim: map[string]string{"cpu": "1"}}, "!evictionMinimumReclaim: unsupported eviction signal cpu"},
	} {
		got, err := Parse(c.in)
		text := "!" + fmt.Sprint(err)
		if err == nil {
			var parts []string
			for _, t := range got {
				parts = append(parts, describe(t))
			}
			text = strings.Join(parts, " ")
		}
		if text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
	}
}

func describe(t Threshold) string {
	value := func(v Value) string {
		if v.Quantity != nil {
			return v.Quantity.String()
		}
		return fmt.Sprintf("%.0f%%", v.Share*100)
	}
	out := string(t.Signal) + "<" + value(t.Value)
	if t.MinReclaim != nil {
		out += "+" + value(*t.MinReclaim)
	}
	if !t.Hard {
		out += " for " + t.Grace.String()
	}
	return out
}

// TestUpdate follows a node through pressure: a soft threshold waits, evictions go on until the minimum is reclaimed, and the condition
// stays for the transition period.
func TestUpdate(t *testing.T) {
	thresholds, err := Parse(Config{
		Hard: map[string]string{"nodefs.available": "10%"}, Soft: map[string]string{"pid.available": "100"},
		SoftGracePeriod: map[string]string{"pid.available": "30s"}, MinimumReclaim: map[string]string{"nodefs.available": "5%"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var s State
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		at         time.Duration
		disk, pids int64 // available, of 1000
		want       string
	}{
		{0, 500, 500, "[] evict []"},
		{10 * time.Second, 99, 500, "[DiskPressure] evict [nodefs.available]"},
		{20 * time.Second, 120, 99, "[DiskPressure PIDPressure] evict [nodefs.available]"}, // not 15 % yet
		{30 * time.Second, 150, 99, "[DiskPressure PIDPressure] evict []"},
		{50 * time.Second, 150, 99, "[DiskPressure PIDPressure] evict [pid.available]"},
		{60 * time.Second, 150, 100, "[DiskPressure PIDPressure] evict []"},
		{80 * time.Second, 150, 99, "[PIDPressure] evict []"}, // the grace period begins again
		{200 * time.Second, 150, 500, "[] evict []"},
	} {
		o := Observations{
			NodeFsAvailable: {Available: *bytes(step.disk), Capacity: *bytes(1000)}, PIDAvailable: {Available: *bytes(step.pids), Capacity: *bytes(1000)},
		}
		conditions, evict := s.Update(thresholds, o, start.Add(step.at), time.Minute)
		var signals []Signal
		for _, e := range evict {
			signals = append(signals, e.Signal)
		}
		if got := fmt.Sprintf("%v evict %v", conditions, signals); got != step.want {
			t.Errorf("after %s: got %s, want %s", step.at, got, step.want)
		}
	}
}

// podOf returns a pod with a priority, whose container "c" requests memory.
func podOf(name string, priority int32, memory string) *corev1.Pod {
	c := corev1.Container{Name: "c"}
	if memory != "" {
		c.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse(memory)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{c}},
	}
}

func TestRank(t *testing.T) {
	uses := func(n int64) Pod {
		return Pod{Containers: []Container{{Name: "c", Memory: n << 20, Rootfs: Disk{Bytes: 1000 - n, Inodes: n}}}}
	}
	pods := []*corev1.Pod{podOf("within", 0, "100Mi"), podOf("high", 9, "10Mi"), podOf("some", 0, "10Mi"), podOf("more", 0, ""), podOf("unknown", 5, "")}
	usage := Usage{"within": uses(50), "high": uses(500), "some": uses(30), "more": uses(40)}
	for name, want := range map[corev1.ResourceName]string{
		corev1.ResourceMemory:           "unknown more some high within",
		corev1.ResourceEphemeralStorage: "unknown some more within high",
		inodes:                          "unknown within more some high",
		pids:                            "within some more unknown high",
	} {
		var got []string
		for _, p := range Rank(name, pods, usage) {
			got = append(got, p.Name)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %s, want %s", name, text, want)
		}
	}
}

func TestMessage(t *testing.T) {
	thresholds, err := Parse(Config{Hard: map[string]string{"memory.available": "100Mi"}})
	if err != nil {
		t.Fatal(err)
	}
	usage := Usage{"p": {Containers: []Container{{Name: "c", Memory: 30 << 20}}}}
	seen := Observations{MemoryAvailable: {Available: *bytes(50 << 20), Capacity: *bytes(1 << 30)}}
	got, annotations := Message(corev1.ResourceMemory, podOf("p", 0, "10Mi"), usage, thresholds, seen)
	const want = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. " +
		"Container c was using 30Mi, request is 10Mi, has larger consumption of memory. "
	if got != want {
		t.Errorf("got %q", got)
	}
	if text := fmt.Sprint(annotations); text != "map[offending_containers:c offending_containers_usage:30Mi starved_resource:memory]" {
		t.Errorf("got %s", text)
	}
}

func TestStorageExceeded(t *testing.T) {
	limit := resource.MustParse("1Mi")
	emptyDir := func(medium corev1.StorageMedium) *corev1.Pod {
		p := podOf("p", 0, "")
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit, Medium: medium}}}}
		return p
	}
	limited := podOf("p", 0, "")
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: limit}
	two := limited.DeepCopy()
	two.Spec.Containers = append(two.Spec.Containers, corev1.Container{Name: "d", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("10Mi")}}})
	volume := func(n int64) Pod { return Pod{Volumes: map[string]Disk{"v": {Bytes: n}}} }
	files := func(n int64) Pod {
		return Pod{Containers: []Container{{Name: "c", Rootfs: Disk{Bytes: n}, Logs: Disk{Bytes: 1}}}}
	}
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		used    Pod
		limited bool
		want    string
	}{
		{"no limit", podOf("p", 0, ""), files(9 << 20), false, ""},
		{"a volume within its limit", emptyDir(""), volume(1 << 20), true, ""},
		{"a volume above its limit", emptyDir(""), volume(1<<20 + 1), true, `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `},
		{"a volume in memory", emptyDir(corev1.StorageMediumMemory), volume(1<<20 + 1), true, `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `},
		{"a container within its limit", limited, files(1<<20 - 1), true, ""},
		{"all containers", limited, files(1 << 20), true, "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "},
		{"one of two containers", two, files(1 << 20), true, `Container c exceeded its local ephemeral storage limit "1Mi". `},
	} {
		if got := StorageExceeded(c.pod, c.used); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if got := LimitsStorage(c.pod); got != c.limited {
			t.Errorf("%s: limited: %v", c.name, got)
		}
	}
}
