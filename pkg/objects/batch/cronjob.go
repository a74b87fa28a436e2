package batch

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// CronJobs is the row of CronJob.
var CronJobs = objects.Def[*batchv1.CronJob]{
	Names: objects.Names{Group: "batch", Version: "v1", Kind: "CronJob", Plural: "cronjobs",
		Short: []string{"cj"}, Categories: []string{"all"}},
	Versions: []objects.Version[*batchv1.CronJob]{
		objects.Older("batch/v1beta1", "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob", newCronJob,
			func() *batchv1beta1.CronJob { return &batchv1beta1.CronJob{} },
			func() runtime.Object { return &batchv1beta1.CronJobList{} }),
	},
	New:        newCronJob,
	Controller: "cronjob-controller",
	NewList:    func() runtime.Object { return &batchv1.CronJobList{} },
	Default:    defaultCronJob,
	Prepare:    prepareCronJob,
	Validate:   validateCronJob,
	Warnings:   cronJobWarnings,
	Columns:    cronJobColumns,
	Reset:      []string{"status"},
	Status: &objects.Status[*batchv1.CronJob]{
		Prepare: func(c, old *batchv1.CronJob) { c.Spec = old.Spec },
		Reset:   []string{"spec"},
	},
}

func newCronJob() *batchv1.CronJob { return &batchv1.CronJob{} }

func defaultCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	if s.ConcurrencyPolicy == "" {
		s.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	if s.Suspend == nil {
		s.Suspend = new(false)
	}
	if s.SuccessfulJobsHistoryLimit == nil {
		s.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	if s.FailedJobsHistoryLimit == nil {
		s.FailedJobsHistoryLimit = new(int32(1))
	}
	defaultFailurePolicy(s.JobTemplate.Spec.PodFailurePolicy)
	podspec.DefaultTemplate(&s.JobTemplate.Spec.Template)
}

func prepareCronJob(c, old *batchv1.CronJob) {
	podspec.PrepareTemplate(&c.Spec.JobTemplate.Spec.Template)
	if old == nil {
		c.Status = batchv1.CronJobStatus{}
		c.Generation = 1
		return
	}
	c.Status = old.Status
	check.Generation(c, old, func() bool { return !check.Same(&c.Spec, &old.Spec) })
}

// maxCronJobName leaves room in a label for the suffix of the names of Jobs.
const maxCronJobName = 52

func validateCronJob(c, old *batchv1.CronJob) field.ErrorList {
	if old != nil {
		return append(check.MetaUpdate(c, old), validateCronJobSpec(&c.Spec, &old.Spec, check.Spec)...)
	}
	errs := append(check.Meta(c, true, validation.NameIsDNSSubdomain), validateCronJobSpec(&c.Spec, nil, check.Spec)...)
	if len(c.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(check.Metadata.Child("name"), c.Name, "must be no more than 52 characters"))
	}
	return errs
}

func validateCronJobSpec(s, old *batchv1.CronJobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Schedule == "" {
		errs = append(errs, field.Required(at.Child("schedule"), ""))
	} else {
		errs = append(errs, validateSchedule(s, old != nil && strings.Contains(old.Schedule, "TZ"), at.Child("schedule"))...)
	}
	errs = append(errs, nonNegative(s.StartingDeadlineSeconds, at, "startingDeadlineSeconds")...)
	if s.TimeZone != nil && (old == nil || old.TimeZone == nil || *old.TimeZone != *s.TimeZone) {
		errs = append(errs, validateTimeZone(*s.TimeZone, at.Child("timeZone"))...)
	}
	errs = append(errs, check.Named(s.ConcurrencyPolicy, []batchv1.ConcurrencyPolicy{
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}, at, "concurrencyPolicy")...)
	job, template := at.Child("jobTemplate", "spec"), &s.JobTemplate.Spec
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.JobTemplate.Spec.Template
	}
	errs = append(errs, validateJobSpec(template, was, job)...)
	if template.Selector != nil {
		errs = append(errs, field.Invalid(job.Child("selector"), template.Selector, "`selector` will be auto-generated"))
	}
	if template.ManualSelector != nil && *template.ManualSelector {
		errs = append(errs, field.NotSupported(job.Child("manualSelector"), *template.ManualSelector, []string{"nil", "false"}))
	}
	errs = append(errs, nonNegative(s.SuccessfulJobsHistoryLimit, at, "successfulJobsHistoryLimit")...)
	return append(errs, nonNegative(s.FailedJobsHistoryLimit, at, "failedJobsHistoryLimit")...)
}

// validateSchedule rejects a time zone in the schedule, unless the old CronJob has one.
func validateSchedule(s *batchv1.CronJobSpec, zoned bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := parseSchedule(s.Schedule); err != nil {
		errs = append(errs, field.Invalid(at, s.Schedule, err.Error()))
	}
	switch {
	case !strings.Contains(s.Schedule, "TZ"):
	case !zoned:
		errs = append(errs, field.Invalid(at, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case s.TimeZone != nil:
		errs = append(errs, field.Invalid(at, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule converts a panic of the parser, which a time zone without a schedule can cause, to an error.
func parseSchedule(schedule string) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("invalid schedule format: %v", problem)
		}
	}()
	_, err = cron.ParseStandard(schedule)
	return err
}

// zonePart matches a part of a time zone's name; some old names have digits.
var zonePart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`)
})

func validateTimeZone(zone string, at *field.Path) field.ErrorList {
	if zone == "" {
		return field.ErrorList{field.Invalid(at, zone, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart().MatchString(part) {
			return field.ErrorList{field.Invalid(at, zone, "unknown time zone "+zone)}
		}
	}
	if strings.EqualFold(zone, "Local") {
		return field.ErrorList{field.Invalid(at, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")}
	}
	if _, err := time.LoadLocation(zone); err != nil {
		return field.ErrorList{field.Invalid(at, zone, err.Error())}
	}
	return nil
}

var (
	cronJobSpecDoc   = batchv1.CronJobSpec{}.SwaggerDoc()
	cronJobStatusDoc = batchv1.CronJobStatus{}.SwaggerDoc()
)

var cronJobColumns = []objects.Column[*batchv1.CronJob]{
	objects.NameColumn[*batchv1.CronJob](),
	{Name: "Schedule", Description: cronJobSpecDoc["schedule"], Cell: func(c *batchv1.CronJob, _ time.Time) any { return c.Spec.Schedule }},
	{Name: "Timezone", Description: cronJobSpecDoc["timeZone"], Cell: func(c *batchv1.CronJob, _ time.Time) any {
		if c.Spec.TimeZone == nil {
			return "<none>"
		}
		return *c.Spec.TimeZone
	}},
	{Name: "Suspend", Type: "boolean", Description: cronJobSpecDoc["suspend"], Cell: func(c *batchv1.CronJob, _ time.Time) any { return suspended(c) }},
	{Name: "Active", Type: "integer", Description: cronJobStatusDoc["active"], Cell: func(c *batchv1.CronJob, _ time.Time) any { return int64(len(c.Status.Active)) }},
	{Name: "Last Schedule", Description: cronJobStatusDoc["lastScheduleTime"], Cell: func(c *batchv1.CronJob, now time.Time) any {
		if c.Status.LastScheduleTime == nil {
			return "<none>"
		}
		return objects.Age(*c.Status.LastScheduleTime, now)
	}},
	objects.AgeColumn[*batchv1.CronJob](),
	{Name: "Containers", Wide: true, Description: "Names of each container in the template.", Cell: func(c *batchv1.CronJob, _ time.Time) any {
		return podspec.ContainerNames(&c.Spec.JobTemplate.Spec.Template.Spec)
	}},
	{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.", Cell: func(c *batchv1.CronJob, _ time.Time) any {
		return podspec.Images(&c.Spec.JobTemplate.Spec.Template.Spec)
	}},
	{Name: "Selector", Wide: true, Description: batchv1.JobSpec{}.SwaggerDoc()["selector"], Cell: func(c *batchv1.CronJob, _ time.Time) any {
		return metav1.FormatLabelSelector(c.Spec.JobTemplate.Spec.Selector)
	}},
}

// suspended returns a string although the column's type is boolean, as Kubernetes does.
func suspended(c *batchv1.CronJob) string {
	switch {
	case c.Spec.Suspend == nil:
		return "<unset>"
	case *c.Spec.Suspend:
		return "True"
	}
	return "False"
}
