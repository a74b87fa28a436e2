package whatif

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/plug"
)

// perfCase is a test case of a configuration file of Kubernetes' scheduler_perf: operations, which run one after another, and workloads, which give
// their parameters values. Thresholds and metrics collectors are about Kubernetes' own measurements, and read no further.
type perfCase struct {
	Name                           string            `json:"name"`
	FeatureGates                   map[string]bool   `json:"featureGates"`
	MetricsCollectorConfig         json.RawMessage   `json:"metricsCollectorConfig"`
	WorkloadTemplate               []json.RawMessage `json:"workloadTemplate"`
	Workloads                      []perfWorkload    `json:"workloads"`
	SchedulerConfigPath            string            `json:"schedulerConfigPath"`
	DefaultPodTemplatePath         string            `json:"defaultPodTemplatePath"`
	Labels                         []string          `json:"labels"`
	DefaultThresholdMetricSelector json.RawMessage   `json:"defaultThresholdMetricSelector"`
}

type perfWorkload struct {
	Name                    string          `json:"name"`
	Params                  map[string]any  `json:"params"`
	Labels                  []string        `json:"labels"`
	Threshold               json.RawMessage `json:"threshold"`
	ThresholdMetricSelector json.RawMessage `json:"thresholdMetricSelector"`
	FeatureGates            map[string]bool `json:"featureGates"`
}

// PerfWorkload is a workload of a scheduler_perf file: CASE/WORKLOAD.
type PerfWorkload struct {
	Name       string
	Labels     []string
	ConfigFile string // the KubeSchedulerConfiguration that the test case names; "": none
	// Unsupported has what cannot be replayed, with its path. Such a workload cannot be played.
	Unsupported []string
	// Ignored has what has no effect on a replay, with its path.
	Ignored []string

	features feature.Gates // that its PodGroups need
	ops      []perfOp
}

// Trace returns the trace of a workload without Unsupported.
func (w PerfWorkload) Trace() Trace {
	return Trace{Name: w.Name, Features: w.features, Play: func(ctx context.Context, p *Player) error { return newPerfRun(p).run(ctx, w.ops) }}
}

// maxCount bounds the counts of operations.
const maxCount = 10_000_000

// ReadPerf reads a scheduler_perf configuration file. read returns the content of a file that it names; paths are relative to the file's directory. An error is
// about a malformed file, and has the path of the field.
func ReadPerf(f File, read func(path string) ([]byte, error)) ([]PerfWorkload, error) {
	var cases []perfCase
	if err := plug.DecodePaths(f.Data, &cases); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s: no test cases", f.Name)
	}
	templates := perfTemplates{read: read, dir: filepath.Dir(f.Name), known: map[string]*perfTemplate{}}
	var out []PerfWorkload
	var errs []error
	names := map[string]bool{}
	for i, c := range cases {
		for j := range c.Workloads {
			b := perfBuild{file: f.Name, templates: &templates, test: &cases[i], workload: &cases[i].Workloads[j], at: fmt.Sprintf("[%d]", i), used: map[string]bool{}}
			w := b.build()
			if names[w.Name] {
				b.wrong(fmt.Sprintf("workloads[%d].name", j), fmt.Sprintf("%q is there twice", w.Name))
			}
			names[w.Name] = true
			errs = append(errs, b.errs...)
			out = append(out, w)
		}
		for _, missing := range []struct {
			field string
			is    bool
		}{{"name", c.Name == ""}, {"workloadTemplate", len(c.WorkloadTemplate) == 0}, {"workloads", len(c.Workloads) == 0}} {
			if missing.is {
				errs = append(errs, fmt.Errorf("%s: [%d].%s: required", f.Name, i, missing.field))
			}
		}
	}
	return out, errors.Join(distinct(errs)...)
}

// distinct leaves out errors with the text of an earlier one: those of an operation are found for each workload.
func distinct(errs []error) []error {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(err error) bool {
		twice := seen[err.Error()]
		seen[err.Error()] = true
		return twice
	})
}

// perfBuild makes the operations of a workload.
type perfBuild struct {
	file      string
	templates *perfTemplates
	test      *perfCase
	workload  *perfWorkload
	at        string // the path of what is read now
	used      map[string]bool
	errs      []error
	out       PerfWorkload
}

// wrong records an error in a field below the present path.
func (b *perfBuild) wrong(field, message string) {
	b.errs = append(b.errs, fmt.Errorf("%s: %s: %s", b.file, b.path(field), message))
}

func (b *perfBuild) path(field string) string {
	return strings.TrimSuffix(b.at+"."+field, ".")
}

// unsupported records that a field cannot be replayed.
func (b *perfBuild) unsupported(field, why string) {
	b.out.Unsupported = append(b.out.Unsupported, b.path(field)+": "+why)
}

// build makes the workload. It is complete if there are no errors.
func (b *perfBuild) build() PerfWorkload {
	b.out = PerfWorkload{Name: b.test.Name + "/" + b.workload.Name, Labels: slices.Concat(b.test.Labels, b.workload.Labels)}
	if b.test.SchedulerConfigPath != "" {
		b.out.ConfigFile = b.templates.pathOf(b.test.SchedulerConfigPath)
	}
	root := b.at
	for i, raw := range b.test.WorkloadTemplate {
		b.at = fmt.Sprintf("%s.workloadTemplate[%d]", root, i)
		if op := b.decode(raw); op != nil {
			op.prepare(b)
			b.out.ops = append(b.out.ops, op)
		}
	}
	b.at = root
	gates := map[string]bool{}
	maps.Copy(gates, b.test.FeatureGates)
	maps.Copy(gates, b.workload.FeatureGates)
	on := b.out.features
	for name, is := range map[string]bool{"GenericWorkload": on.GenericWorkload, "GangScheduling": on.GangScheduling, "TopologyAwareWorkloadScheduling": on.TopologyAwareWorkloadScheduling} {
		if is && gates[name] {
			delete(gates, name)
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		b.out.Ignored = append(b.out.Ignored, "featureGates."+gate)
	}
	for _, param := range slices.Sorted(maps.Keys(b.workload.Params)) {
		if !b.used[param] {
			b.out.Ignored = append(b.out.Ignored, "params."+param)
		}
	}
	return b.out
}

// perfOp is an operation of a workload.
type perfOp interface {
	// prepare sets what parameters give, reads the templates, and records what is wrong or not supported.
	prepare(b *perfBuild)
	run(ctx context.Context, r *perfRun) error
}

// newOp returns an operation by its opcode, nil if there is none.
func newOp(opcode string) perfOp {
	switch opcode {
	case "createNodes":
		return new(createNodes)
	case "createNamespaces":
		return new(createNamespaces)
	case "createPods":
		return new(createPods)
	case "createPodSets":
		return new(createPodSets)
	case "createAny":
		return new(createAny)
	case "updateAny":
		return new(updateAny)
	case "deletePods":
		return new(deletePods)
	case "churn":
		return new(churn)
	case "barrier":
		return new(barrier)
	case "sleep":
		return new(sleep)
	case "startCollectingMetrics":
		return new(startCollecting)
	case "stopCollectingMetrics":
		return new(stopCollecting)
	}
	return nil
}

// unsupportedOps are opcodes of operations that cannot be replayed.
var unsupportedOps = []string{"allocResourceClaims", "createResourceClaims", "createResourceDriver"}

// decode returns the operation, nil after an error or if it is not supported.
func (b *perfBuild) decode(raw json.RawMessage) perfOp {
	var code struct {
		Opcode string `json:"opcode"`
	}
	if err := json.Unmarshal(raw, &code); err != nil {
		b.wrong("opcode", "must be a string, in a mapping")
		return nil
	}
	if slices.Contains(unsupportedOps, code.Opcode) {
		b.unsupported("opcode", code.Opcode+" is not supported: devices and resource claims are not simulated")
		return nil
	}
	op := newOp(code.Opcode)
	if op == nil {
		b.wrong("opcode", fmt.Sprintf("there is no operation %q", code.Opcode))
		return nil
	}
	if err := plug.DecodePaths(raw, op); err != nil {
		b.wrong("", err.Error())
		return nil
	}
	return op
}

// count returns the value of a count, or of its parameter.
func (b *perfBuild) count(count *float64, param string, otherwise int) int {
	field, v := "count", float64(otherwise)
	if count != nil {
		v = *count
	}
	if param != "" {
		field = "countParam"
		number, ok := paramOf[float64](b, field, param)
		if !ok {
			return 0
		}
		v = number
	}
	if v != float64(int(v)) || v < 0 || v > maxCount {
		b.wrong(field, fmt.Sprintf("%v is not a whole number from 0 to %d", v, maxCount))
		return 0
	}
	return int(v)
}

// duration returns a duration, or that of its parameter.
func (b *perfBuild) duration(d metav1.Duration, param string) time.Duration {
	if param == "" {
		return d.Duration
	}
	text, ok := paramOf[string](b, "durationParam", param)
	if !ok {
		return 0
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		b.wrong("durationParam", fmt.Sprintf("parameter %s: %q is not a duration", param, text))
	}
	return parsed
}

// paramOf returns the value of a parameter, $NAME.
func paramOf[T float64 | string | bool](b *perfBuild, field, param string) (out T, ok bool) {
	name, ok := strings.CutPrefix(param, "$")
	if !ok {
		b.wrong(field, fmt.Sprintf("%q must begin with $", param))
		return out, false
	}
	b.used[name] = true
	value, known := b.workload.Params[name]
	if number, is := value.(int64); is {
		value = float64(number)
	}
	out, ok = value.(T)
	switch {
	case !known:
		b.wrong(field, fmt.Sprintf("workload %s has no parameter %s", b.workload.Name, name))
	case !ok:
		b.wrong(field, fmt.Sprintf("parameter %s of workload %s must be a %s", name, b.workload.Name, strings.Replace(fmt.Sprintf("%T", out), "float64", "number", 1)))
	}
	return out, ok
}

// template reads a template. It returns nil if path is "" or the template is wrong.
func (b *perfBuild) template(field, path string) *perfTemplate {
	if path == "" {
		return nil
	}
	t, err := b.templates.get(path)
	if err != nil {
		b.wrong(field, err.Error())
		return nil
	}
	return t
}

// podTemplate reads a template of pods, or returns that of the test case if path is "". It returns nil for scheduler_perf's own pod.
func (b *perfBuild) podTemplate(field, path string) *perfTemplate {
	t := b.template(field, cmp.Or(path, b.test.DefaultPodTemplatePath))
	if t == nil {
		return nil
	}
	pod, err := decodeTemplate[corev1.Pod](t, 0, 1)
	if err != nil {
		b.wrong(field, err.Error())
		return nil
	}
	b.checkPod(field, t, pod)
	return t
}

// podGroup reads a template of PodGroups, and records the feature gates that they need.
func (b *perfBuild) podGroup(t *perfTemplate) error {
	obj, err := t.podGroup("", 0, 1)
	if err != nil {
		return err
	}
	constraints := b.out.features.TopologyAwareWorkloadScheduling
	if group, ok := obj.(*schedulingv1alpha2.PodGroup); ok && group.Spec.SchedulingConstraints != nil {
		constraints = true
	}
	b.out.features = gangFeatures
	b.out.features.TopologyAwareWorkloadScheduling = constraints
	return nil
}

// checkPod records what of a pod is not simulated.
func (b *perfBuild) checkPod(field string, t *perfTemplate, pod *corev1.Pod) {
	if len(pod.Spec.ResourceClaims) > 0 {
		b.unsupported(field, t.path+": spec.resourceClaims: resource claims are not simulated")
	}
	for i, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			b.unsupported(field, fmt.Sprintf("%s: spec.volumes[%d]: persistent volumes are not simulated", t.path, i))
		}
	}
}

// object reads a template whose kind is simulated: objects have one of kinds.
func (b *perfBuild) object(field, path string, kinds ...string) *perfTemplate {
	if path == "" {
		b.wrong(field, "required")
		return nil
	}
	t := b.template(field, path)
	if t == nil {
		return nil
	}
	kind, err := decodeTemplate[metav1.PartialObjectMetadata](t, 0, 1)
	if err == nil && slices.Contains(kinds, kind.Kind) {
		switch kind.Kind {
		case "Pod":
			return b.podTemplate(field, path)
		case "Node":
			_, err = decodeTemplate[corev1.Node](t, 0, 1)
		case "Namespace":
			_, err = decodeTemplate[corev1.Namespace](t, 0, 1)
		case "PriorityClass":
			_, err = decodeTemplate[schedulingv1.PriorityClass](t, 0, 1)
		case "PodGroup":
			err = b.podGroup(t)
		}
		if err == nil {
			return t
		}
	}
	if err != nil {
		b.wrong(field, err.Error())
		return nil
	}
	b.unsupported(field, fmt.Sprintf("%s: objects of the kind %s are not simulated", t.path, kind.Kind))
	return nil
}
