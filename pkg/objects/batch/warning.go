package batch

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func jobWarnings(j, old *batchv1.Job) []string {
	var out []string
	if old == nil {
		out = podspec.NameWarnings(j.Name)
	} else if j.Generation == old.Generation {
		return nil
	}
	return append(out, specWarnings(&j.Spec, check.Spec)...)
}

func specWarnings(s *batchv1.JobSpec, at *field.Path) []string {
	var out []string
	if isIndexed(s) && s.Completions != nil && *s.Completions > maxIndexes && s.Parallelism != nil && *s.Parallelism > maxOfManyIndexes {
		out = append(out, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(out, podspec.Warnings(&s.Template.Spec, s.Template.Annotations, at.Child("template"))...)
}

func cronJobWarnings(c, old *batchv1.CronJob) []string {
	var out []string
	if old == nil {
		out = podspec.NameWarnings(c.Name)
	}
	if old == nil || c.Generation != old.Generation {
		out = append(out, specWarnings(&c.Spec.JobTemplate.Spec, check.Spec.Child("jobTemplate", "spec"))...)
	}
	if old != nil && strings.Contains(c.Spec.Schedule, "TZ") {
		out = append(out, "spec.schedule: CRON_TZ or TZ used in schedule is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return out
}
