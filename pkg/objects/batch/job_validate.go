package batch

import (
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// The limits of indexed Jobs, the lower ones for Jobs with more completions than the first.
const (
	maxIndexes       = 100_000
	maxOfManyIndexes = 10_000
	maxManagedBy     = 63
)

// validateJob reports errors of an update twice, as Kubernetes does.
func validateJob(j, old *batchv1.Job) field.ErrorList {
	meta := j
	if old == nil && onlyGenerated(j.Labels, j) { // copied from the template, whose labels are checked below
		meta = &batchv1.Job{ObjectMeta: j.ObjectMeta}
		meta.Labels = nil
	}
	errs := check.Meta(meta, true, validation.NameIsDNSSubdomain)
	errs = append(errs, validateGenerated(j, old)...)
	var template *corev1.PodTemplateSpec
	if old != nil {
		template = &old.Spec.Template
	}
	errs = append(errs, validateSelected(&j.Spec, template, check.Spec)...)
	if isIndexed(&j.Spec) && j.Spec.Completions != nil && *j.Spec.Completions > 0 {
		host := fmt.Sprintf("%s-%d", j.Name, *j.Spec.Completions-1)
		if len(utilvalidation.IsDNS1123Label(host)) > 0 {
			errs = append(errs, field.Invalid(check.Metadata.Child("name"), j.Name, "will not able to create pod with invalid DNS label: "+host))
		}
	}
	if old == nil {
		return errs
	}
	errs = append(errs, check.MetaUpdate(j, old)...)
	errs = append(errs, validateSelected(&j.Spec, template, check.Spec)...)
	return append(errs, validateJobChange(j, old)...)
}

// onlyGenerated reports whether the labels are exactly the generated ones.
func onlyGenerated(labels map[string]string, j *batchv1.Job) bool {
	expected := map[string]string{}
	for _, label := range generatedLabels(j) {
		expected[label[0]] = label[1]
	}
	return maps.Equal(labels, expected)
}

func isIndexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// validateGenerated checks the generated labels and selector, unless manualSelector is set. A
// Job that is older than the newer labels need not have them.
func validateGenerated(j, old *batchv1.Job) field.ErrorList {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector || j.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if j.UID == "" {
		errs = append(errs, field.Required(check.Metadata.Child("uid"), ""))
	}
	at := check.Spec.Child("template", "metadata", "labels")
	expected := labels.Set{}
	wanted := generatedLabels(j)
	if old != nil && (lacks(old, batchv1.JobNameLabel) || lacks(old, batchv1.ControllerUidLabel)) {
		wanted = wanted[:2]
	}
	for _, label := range wanted {
		expected[label[0]] = label[1]
		switch got, ok := j.Spec.Template.Labels[label[0]]; {
		case !ok:
			errs = append(errs, field.Required(at.Key(label[0]), fmt.Sprintf("must be '%s'", label[1])))
		case got != label[1]:
			errs = append(errs, field.Invalid(at.Key(label[0]), j.Spec.Template.Labels, fmt.Sprintf("must be '%s'", label[1])))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(expected) {
		errs = append(errs, field.Invalid(check.Spec.Child("selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

func lacks(j *batchv1.Job, label string) bool {
	_, ok := j.Spec.Template.Labels[label]
	return !ok
}

// validateSelected checks a Job's spec and that its selector matches its template.
func validateSelected(s *batchv1.JobSpec, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := validateJobSpec(s, old, at)
	if s.Selector == nil {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	} else {
		errs = append(errs, check.Selector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

func nonNegative[N int32 | int64](n *N, at *field.Path, name string) field.ErrorList {
	if n == nil {
		return nil
	}
	return check.NonNegative(*n, at, name)
}

// validateJobSpec checks the fields that Jobs and Job templates share.
func validateJobSpec(s *batchv1.JobSpec, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := nonNegative(s.Parallelism, at, "parallelism")
	errs = append(errs, nonNegative(s.Completions, at, "completions")...)
	errs = append(errs, nonNegative(s.ActiveDeadlineSeconds, at, "activeDeadlineSeconds")...)
	errs = append(errs, nonNegative(s.BackoffLimit, at, "backoffLimit")...)
	errs = append(errs, nonNegative(s.TTLSecondsAfterFinished, at, "ttlSecondsAfterFinished")...)
	errs = append(errs, nonNegative(s.BackoffLimitPerIndex, at, "backoffLimitPerIndex")...)
	errs = append(errs, nonNegative(s.MaxFailedIndexes, at, "maxFailedIndexes")...)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(at.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if s.ManagedBy != nil {
		managed := at.Child("managedBy")
		errs = append(errs, check.Invalid(managed, *s.ManagedBy, domainPath(*s.ManagedBy, managed))...)
		if len(*s.ManagedBy) > maxManagedBy {
			errs = append(errs, field.TooLong(managed, *s.ManagedBy, maxManagedBy))
		}
	}
	errs = append(errs, validateIndexes(s, at)...)
	errs = append(errs, validateFailurePolicy(s, at.Child("podFailurePolicy"))...)
	errs = append(errs, validateSuccessPolicy(s, at.Child("successPolicy"))...)
	errs = append(errs, validateReplacement(s, at.Child("podReplacementPolicy"))...)
	errs = append(errs, podspec.ValidateTemplate(&s.Template, old, at.Child("template"))...)
	return append(errs, validateRestart(s, at.Child("template", "spec", "restartPolicy"))...)
}

// domainPath returns what is wrong with a name like example.com/name.
func domainPath(value string, at *field.Path) []string {
	var out []string
	for _, err := range utilvalidation.IsDomainPrefixedPath(at, value) {
		out = append(out, err.Detail)
	}
	return out
}

// validateRestart rejects the restart policy Always, which is also the default, for the pods of a Job.
func validateRestart(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	allowed := []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	var errs field.ErrorList
	switch policy := s.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "":
		errs = append(errs, field.Required(at, fmt.Sprintf("valid values: %q, %q", allowed[0], allowed[1])))
	case corev1.RestartPolicyOnFailure:
		if s.PodFailurePolicy != nil {
			errs = append(errs, field.Invalid(at, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever)))
		}
	default:
		errs = append(errs, check.OneOf(policy, allowed, at)...)
	}
	return errs
}

func validateIndexes(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.CompletionMode != nil {
		errs = check.OneOf(*s.CompletionMode, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}, at, "completionMode")
	}
	if !isIndexed(s) {
		return append(errs, validateNotIndexed(s, at)...)
	}
	if s.Completions == nil {
		errs = append(errs, field.Required(at.Child("completions"), "when completion mode is Indexed"))
	}
	if s.Parallelism != nil && *s.Parallelism > maxIndexes {
		errs = append(errs, field.Invalid(at.Child("parallelism"), *s.Parallelism, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxIndexes)))
	}
	if s.Completions != nil && s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
		errs = append(errs, field.Invalid(at.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "must be less than or equal to completions"))
	}
	if s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > maxIndexes {
		errs = append(errs, field.Invalid(at.Child("maxFailedIndexes"), *s.MaxFailedIndexes, fmt.Sprintf("must be less than or equal to %d", maxIndexes)))
	}
	if s.Completions != nil && *s.Completions > maxIndexes && s.BackoffLimitPerIndex != nil {
		errs = append(errs, validateManyIndexes(s, at)...)
	}
	return errs
}

// validateNotIndexed rejects fields of indexed Jobs in others, unless the completion mode is invalid.
func validateNotIndexed(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if s.CompletionMode != nil && *s.CompletionMode != batchv1.NonIndexedCompletion {
		return nil
	}
	var errs field.ErrorList
	if s.BackoffLimitPerIndex != nil {
		errs = append(errs, field.Invalid(at.Child("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, "requires indexed completion mode"))
	}
	if s.MaxFailedIndexes != nil {
		errs = append(errs, field.Invalid(at.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "requires indexed completion mode"))
	}
	return errs
}

func validateManyIndexes(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(at.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", maxIndexes)))
	}
	if s.Parallelism != nil && *s.Parallelism > maxOfManyIndexes {
		errs = append(errs, field.Invalid(at.Child("parallelism"), *s.Parallelism,
			fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", maxOfManyIndexes, maxIndexes)))
	}
	if s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > maxOfManyIndexes {
		errs = append(errs, field.Invalid(at.Child("maxFailedIndexes"), *s.MaxFailedIndexes,
			fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", maxOfManyIndexes, maxIndexes)))
	}
	return errs
}

func validateReplacement(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if s.PodReplacementPolicy == nil {
		return nil
	}
	if s.PodFailurePolicy == nil {
		return check.OneOf(*s.PodReplacementPolicy, []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}, at)
	}
	return check.OneOf(*s.PodReplacementPolicy, []batchv1.PodReplacementPolicy{batchv1.Failed}, at)
}

// validateJobChange rejects changes of immutable fields. Parallelism and limits may change, and the scheduling directives of a suspended Job.
func validateJobChange(j, old *batchv1.Job) field.ErrorList {
	s, was, at := &j.Spec, &old.Spec, check.Spec
	errs := validateCompletionsChange(s, was, at)
	errs = append(errs, check.Immutable(s.Selector, was.Selector, at.Child("selector"))...)
	errs = append(errs, validateTemplateChange(j, old)...)
	errs = append(errs, check.Immutable(s.CompletionMode, was.CompletionMode, at.Child("completionMode"))...)
	errs = append(errs, check.ImmutableShown(s.PodFailurePolicy, was.PodFailurePolicy, at.Child("podFailurePolicy"))...)
	errs = append(errs, check.Immutable(s.BackoffLimitPerIndex, was.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex"))...)
	errs = append(errs, check.Immutable(s.ManagedBy, was.ManagedBy, at.Child("managedBy"))...)
	return append(errs, check.ImmutableShown(s.SuccessPolicy, was.SuccessPolicy, at.Child("successPolicy"))...)
}

// validateTemplateChange rejects changes of the template, except scheduling directives and resources of a held Job.
func validateTemplateChange(j, old *batchv1.Job) field.ErrorList {
	now, was, at := &j.Spec.Template, old.Spec.Template.DeepCopy(), check.Spec
	if !isHeld(old) {
		return check.ImmutableShown(now, was, at.Child("template"))
	}
	followDirectives(was, now)
	followResources(was.Spec.Containers, now.Spec.Containers)
	followResources(was.Spec.InitContainers, now.Spec.InitContainers)
	return check.ImmutableShown(&now.Spec, &was.Spec, at.Child("template.spec"))
}

func validateCompletionsChange(s, was *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if !isIndexed(s) {
		return check.Immutable(s.Completions, was.Completions, at.Child("completions"))
	}
	if s.Completions == nil || s.Parallelism == nil || equality.Semantic.DeepEqual(s.Completions, was.Completions) || *s.Completions == *s.Parallelism {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("completions"), *s.Completions, fmt.Sprintf("can only be modified in tandem with %s", at.Child("parallelism")))}
}

// isHeld reports whether a Job is suspended and has no pods.
func isHeld(j *batchv1.Job) bool {
	if j.Spec.Suspend == nil || !*j.Spec.Suspend {
		return false
	}
	return (j.Status.StartTime == nil || has(j, batchv1.JobSuspended)) && j.Status.Active == 0
}

// followDirectives copies the scheduling directives.
func followDirectives(t, from *corev1.PodTemplateSpec) {
	t.Labels, t.Annotations = from.Labels, from.Annotations
	t.Spec.NodeSelector, t.Spec.Tolerations, t.Spec.SchedulingGates = from.Spec.NodeSelector, from.Spec.Tolerations, from.Spec.SchedulingGates
	switch mine, theirs := t.Spec.Affinity, from.Spec.Affinity; {
	case mine != nil && theirs != nil:
		mine.NodeAffinity = theirs.NodeAffinity
	case mine != nil:
		mine.NodeAffinity = nil
		if *mine == (corev1.Affinity{}) {
			t.Spec.Affinity = nil
		}
	case theirs != nil:
		t.Spec.Affinity = &corev1.Affinity{NodeAffinity: theirs.NodeAffinity}
	}
}

// followResources copies the containers' resources, if their number is unchanged.
func followResources(containers, from []corev1.Container) {
	if len(containers) != len(from) {
		return
	}
	for i := range from {
		if containers[i].Name == from[i].Name {
			containers[i].Resources = from[i].Resources
		}
	}
}
