// Package batch holds the rows of the group batch: work that ends.
package batch

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// Jobs is the row of Job.
var Jobs = objects.Def[*batchv1.Job]{
	Names:      objects.Names{Group: "batch", Version: "v1", Kind: "Job", Plural: "jobs", Categories: []string{"all"}},
	New:        func() *batchv1.Job { return &batchv1.Job{} },
	Controller: "job-controller",
	NewList:    func() runtime.Object { return &batchv1.JobList{} },
	Default:    defaultJob,
	Prepare:    prepareJob,
	Validate:   validateJob,
	Warnings:   jobWarnings,
	Columns:    jobColumns,
	Selectable: map[string]func(*batchv1.Job) string{
		"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) },
	},
	Unselectable: "field label %q not supported for Job",
	Reset:        []string{"status"},
	Status: &objects.Status[*batchv1.Job]{
		Prepare:  func(j, old *batchv1.Job) { j.Spec = old.Spec },
		Validate: validateJobStatus,
		Reset:    []string{"spec"},
	},
	OrphanDefault: true,
	OrphanWarning: "child pods are preserved by default when jobs are deleted; " +
		"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
}

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	if s.Parallelism == nil {
		s.Parallelism = new(int32(1))
	}
	if s.BackoffLimit == nil {
		s.BackoffLimit = new(int32(6))
		if s.BackoffLimitPerIndex != nil {
			*s.BackoffLimit = math.MaxInt32 // each index has its own limit
		}
	}
	if len(j.Labels) == 0 {
		j.Labels = s.Template.Labels // shared, so that generated labels are added to both
	}
	if s.CompletionMode == nil {
		s.CompletionMode = new(batchv1.NonIndexedCompletion)
	}
	if s.Suspend == nil {
		s.Suspend = new(false)
	}
	if s.ManualSelector == nil {
		s.ManualSelector = new(false)
	}
	if s.PodReplacementPolicy == nil {
		s.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
		if s.PodFailurePolicy != nil {
			*s.PodReplacementPolicy = batchv1.Failed
		}
	}
	defaultFailurePolicy(s.PodFailurePolicy)
	podspec.DefaultTemplate(&s.Template)
}

func defaultFailurePolicy(p *batchv1.PodFailurePolicy) {
	if p == nil {
		return
	}
	for i := range p.Rules {
		for k := range p.Rules[i].OnPodConditions {
			if c := &p.Rules[i].OnPodConditions[k]; c.Status == "" {
				c.Status = corev1.ConditionTrue
			}
		}
	}
}

func prepareJob(j, old *batchv1.Job) {
	podspec.PrepareTemplate(&j.Spec.Template)
	if old != nil {
		j.Status = old.Status
		check.Generation(j, old, func() bool { return !check.Same(&j.Spec, &old.Spec) })
		return
	}
	j.Status = batchv1.JobStatus{}
	j.Generation = 1
	if j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector {
		shared := reflect.ValueOf(j.Labels).Pointer() == reflect.ValueOf(j.Spec.Template.Labels).Pointer()
		generateSelector(j)
		if shared {
			j.Labels = maps.Clone(j.Spec.Template.Labels)
		}
	}
}

// The labels that select the pods of a Job, and their older names.
const (
	oldUIDLabel  = "controller-uid"
	oldNameLabel = "job-name"
)

// generatedLabels returns the labels of a Job's pods.
func generatedLabels(j *batchv1.Job) [][2]string {
	return [][2]string{
		{oldUIDLabel, string(j.UID)}, {oldNameLabel, j.Name},
		{batchv1.ControllerUidLabel, string(j.UID)}, {batchv1.JobNameLabel, j.Name},
	}
}

// generateSelector sets the selector and the pods' labels to the Job's UID. It keeps labels that a client has set, which
// validation checks.
func generateSelector(j *batchv1.Job) {
	t := &j.Spec.Template
	t.Labels = maps.Clone(t.Labels)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for _, label := range generatedLabels(j) {
		if _, ok := t.Labels[label[0]]; !ok {
			t.Labels[label[0]] = label[1]
		}
	}
	selector := &metav1.LabelSelector{}
	if j.Spec.Selector != nil {
		selector = j.Spec.Selector.DeepCopy()
	}
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	if _, ok := selector.MatchLabels[batchv1.ControllerUidLabel]; !ok {
		selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
	}
	j.Spec.Selector = selector
}

var jobColumns = []objects.Column[*batchv1.Job]{
	objects.NameColumn[*batchv1.Job](),
	{Name: "Status", Description: "Status of the job.", Cell: func(j *batchv1.Job, _ time.Time) any { return jobState(j) }},
	{Name: "Completions", Description: batchv1.JobStatus{}.SwaggerDoc()["succeeded"],
		Cell: func(j *batchv1.Job, _ time.Time) any { return completions(j) }},
	{Name: "Duration", Description: "Time required to complete the job.",
		Cell: func(j *batchv1.Job, now time.Time) any { return jobDuration(j, now) }},
	objects.AgeColumn[*batchv1.Job](),
	{Name: "Containers", Wide: true, Description: "Names of each container in the template.",
		Cell: func(j *batchv1.Job, _ time.Time) any { return podspec.ContainerNames(&j.Spec.Template.Spec) }},
	{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.",
		Cell: func(j *batchv1.Job, _ time.Time) any { return podspec.Images(&j.Spec.Template.Spec) }},
	{Name: "Selector", Wide: true, Description: batchv1.JobSpec{}.SwaggerDoc()["selector"],
		Cell: func(j *batchv1.Job, _ time.Time) any { return metav1.FormatLabelSelector(j.Spec.Selector) }},
}

// has reports whether a condition is true.
func has(j *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

func jobState(j *batchv1.Job) string {
	switch {
	case has(j, batchv1.JobComplete):
		return "Complete"
	case has(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has(j, batchv1.JobSuspended):
		return "Suspended"
	case has(j, batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(j, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func completions(j *batchv1.Job) string {
	switch s := &j.Spec; {
	case s.Completions != nil:
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *s.Completions)
	case s.Parallelism != nil && *s.Parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, *s.Parallelism)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

func jobDuration(j *batchv1.Job, now time.Time) string {
	switch s := &j.Status; {
	case s.StartTime == nil:
		return ""
	case s.CompletionTime == nil:
		return duration.HumanDuration(now.Sub(s.StartTime.Time))
	default:
		return duration.HumanDuration(s.CompletionTime.Sub(s.StartTime.Time))
	}
}
