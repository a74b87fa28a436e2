package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// The annotations with the rules of a pod. A suffix of a dot and a container's name restricts a rule to that container.
const (
	ExitAfter   = "minikctl.dev/sim-exit-after"
	ExitCode    = "minikctl.dev/sim-exit-code"
	FailTimes   = "minikctl.dev/sim-fail-times"
	FailFor     = "minikctl.dev/sim-fail-for"
	ReadyAfter  = "minikctl.dev/sim-ready-after"
	PullAfter   = "minikctl.dev/sim-pull-after"
	UsageCPU    = "kwok.x-k8s.io/usage-cpu"
	UsageMemory = "kwok.x-k8s.io/usage-memory"
	LoadCPU     = "minikctl.dev/sim-load-cpu"
	LoadMemory  = "minikctl.dev/sim-load-memory"
)

// never is the value of a rule for something that does not happen.
const never = "never"

// Rule is an annotation of a pod that decides what happens to its simulated containers.
type Rule struct {
	Annotation string
	Value      string // an example of a value
	Effect     string
	check      func(string) error // nil: a value that is no quantity has no effect
}

// Rules are all rules of pods. The table in docs/simulation.md has the same rows.
var Rules = []Rule{
	{ExitAfter, "30s", "each container ends after this time; default: it runs until it is stopped, or 100ms in a Job's pod", isDuration},
	{ExitCode, "3", "the exit code of a container that ends; default: 0, or 1 for a failure by the next two rules", isCode},
	{FailTimes, "2", "the first starts of each container fail, in a Job's pods those of all its pods together; later ones succeed", isCount},
	{FailFor, "5m", "each container fails until the pod is that old, in a Job's pod until the first of its pods is", isDuration},
	{ReadyAfter, "10s", "each container gets ready this time after its start; `never`: it does not; default: at once", isDurationOrNever},
	{PullAfter, "1m", "images can't be pulled until the pod is that old (ErrImagePull, ImagePullBackOff); `never`: never; default: at once", isDurationOrNever},
	{UsageCPU, "250m", "the CPU that each container uses, for the metrics API", nil},
	{UsageMemory, "64Mi", "the memory that each container uses", nil},
	{LoadCPU, "900m", "CPU that the running containers of the same name of a controller's pods share evenly: a load for autoscalers", nil},
	{LoadMemory, "1Gi", "the same for memory", nil},
}

func isDuration(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d < 0 {
		return fmt.Errorf("%q is no duration such as 30s", text)
	}
	return nil
}

func isDurationOrNever(text string) error {
	if text != never && isDuration(text) != nil {
		return fmt.Errorf("%q is neither a duration such as 30s nor %q", text, never)
	}
	return nil
}

func isCode(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%q is no exit code from 0 to 255", text)
	}
	return nil
}

func isCount(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 0 {
		return fmt.Errorf("%q is no number such as 2", text)
	}
	return nil
}

// check returns an error for the first annotation of a pod whose value its rule does not accept.
func check(annotations map[string]string) error {
	if len(annotations) == 0 {
		return nil
	}
	for _, r := range Rules {
		if r.check == nil {
			continue
		}
		var keys []string
		for key := range annotations {
			if key == r.Annotation || strings.HasPrefix(key, r.Annotation+".") {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			if err := r.check(annotations[key]); err != nil {
				return fmt.Errorf("annotation %s: %w", key, err)
			}
		}
	}
	return nil
}

// lookup returns the value of a rule for a container, "" without one.
func lookup(annotations map[string]string, rule, container string) string {
	if v, ok := annotations[rule+"."+container]; ok {
		return v
	}
	return annotations[rule]
}

// duration returns the value of a rule that check has accepted, or def without one. It is negative for never.
func duration(annotations map[string]string, rule, container string, def time.Duration) time.Duration {
	text := lookup(annotations, rule, container)
	if text == never {
		return -1
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d
	}
	return def
}

// number is duration for rules whose value is a number.
func number(annotations map[string]string, rule, container string, def int) int {
	if n, err := strconv.Atoi(lookup(annotations, rule, container)); err == nil && n >= 0 {
		return n
	}
	return def
}

// quantity returns the value of a rule that is a quantity; false without one, and for a value that is none.
func quantity(annotations map[string]string, rule, container string) (resource.Quantity, bool) {
	q, err := resource.ParseQuantity(lookup(annotations, rule, container))
	return q, err == nil && q.Sign() >= 0
}

// jobRun is how long a container of a Job's pod runs by default, and one that fails.
const jobRun = 100 * time.Millisecond

// end is when and how a container ends by its rules.
type end struct {
	after time.Duration
	code  int
	ends  bool // false: it runs until it is stopped
}

// history is what the rules of a container depend on beside its annotations.
type history struct {
	age    time.Duration // of the pod, or of the first pod of its Job
	starts int           // of the container before, in a Job's pods of all its pods
}

// endOf decides how a container of a pod with accepted annotations ends.
func endOf(p *kubelet.PodSpec, container string, h history) end {
	job := p.OwnerKind == "Job"
	text := lookup(p.Annotations, ExitAfter, container)
	after := duration(p.Annotations, ExitAfter, container, jobRun)
	times, during := number(p.Annotations, FailTimes, container, 0), duration(p.Annotations, FailFor, container, 0)
	switch {
	case h.starts < times, h.age < during:
		return end{after, number(p.Annotations, ExitCode, container, 1), true}
	case times > 0 || during > 0: // no further failure
		return end{after, 0, job}
	}
	return end{after, number(p.Annotations, ExitCode, container, 0), job || text != ""}
}
