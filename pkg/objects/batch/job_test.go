package batch

import (
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newJob(change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pi", Namespace: "default", UID: "u", ResourceVersion: "1"}}
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}}}
	if change != nil {
		change(j)
	}
	defaultJob(j)
	prepareJob(j, nil)
	return j
}

func TestJobChanges(t *testing.T) {
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	indexed := func(j *batchv1.Job) {
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = new(batchv1.IndexedCompletion), new(int32(3)), new(int32(3))
	}
	tests := []struct {
		name        string
		old, change func(*batchv1.Job)
		field       string // field of the error; "": valid
	}{
		{"parallelism", nil, func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(5)) }, ""},
		{"completions", nil, func(j *batchv1.Job) { j.Spec.Completions = new(int32(5)) }, "spec.completions"},
		{"indexed, alone", indexed, func(j *batchv1.Job) { j.Spec.Completions = new(int32(5)) }, "spec.completions"},
		{"indexed, both", indexed, func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(5)), new(int32(5)) }, ""},
		{"mode", nil, func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }, "spec.completionMode"},
		{"image", nil, func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "y" }, "spec.template"},
		{"node selector", nil, func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, "spec.template"},
		{"node selector while suspended", suspended, func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} }, ""},
		{"image while suspended", suspended, func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "y" }, "spec.template.spec"},
	}
	for _, tt := range tests {
		old := newJob(tt.old)
		j := old.DeepCopy()
		tt.change(j)
		errs := validateJobChange(j, old)
		if tt.field == "" && len(errs) > 0 || tt.field != "" && (len(errs) != 1 || errs[0].Field != tt.field) {
			t.Errorf("%s: got %v, want %q", tt.name, errs, tt.field)
		}
	}
}

func TestCountIndexes(t *testing.T) {
	for text, want := range map[string]int32{"": 0, "1": 1, "1,3-5,7": 5, "0-9": 10, "3,1": -1, "1-": -1, "1-2-3": -1, "5-5": -1, "10": -1, "a": -1} {
		got, err := countIndexes(text, new(int32(10)))
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %d, want %d (%v)", text, got, want, err)
		}
	}
}

func TestOverlap(t *testing.T) {
	many := func(from int) string { // every other index
		list := make([]string, 200_000)
		for i := range list {
			list[i] = strconv.Itoa(from + 2*i)
		}
		return strings.Join(list, ",")
	}
	for name, c := range map[string]struct{ completed, failed, want string }{
		"nothing":             {"", "", ""},
		"nothing failed":      {"1-3", "", ""},
		"side by side":        {"1-3,6", "4,5,7-9", ""},
		"the same":            {"1,3", "2,3", "3"},
		"within":              {"0,2-8", "4-5", "4"},
		"across":              {"2-4", "0-2", "2"},
		"what cannot be read": {"x,1-2", "y,2", "2"},
		"many of each":        {many(0), many(1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := overlap(c.completed, c.failed, new(int32(1_000_000))); err != nil {
				got = strings.TrimPrefix(err.Error(), "failedIndexes and completedIndexes overlap at index: ")
			}
			if got != c.want {
				t.Errorf("overlap at %q, want %q", got, c.want)
			}
		})
	}
}
