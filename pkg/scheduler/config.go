package scheduler

import (
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/plug"
)

// readConfig reads and strictly decodes a KubeSchedulerConfiguration file, and also returns its content. An empty path
// gives the empty configuration.
func readConfig(path string) (*configv1.KubeSchedulerConfiguration, []byte, error) {
	if path == "" {
		return &configv1.KubeSchedulerConfiguration{}, nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read scheduler config: %w", err)
	}
	c, err := parseConfig(raw)
	if err != nil {
		return nil, nil, ConfigError("scheduler config "+path, err)
	}
	return c, raw, nil
}

// ConfigError returns the errors of a configuration, one a line, each after the name of the configuration.
func ConfigError(name string, err error) error {
	var lines []error
	for _, e := range flatten(err) {
		lines = append(lines, fmt.Errorf("%s: %w", name, e))
	}
	return errors.Join(lines...)
}

// flatten returns the errors that an error joins.
func flatten(err error) []error {
	var parts []error
	switch joined := err.(type) { //nolint:errorlint // a wrapped list has a message of its own
	case utilerrors.Aggregate:
		parts = joined.Errors()
	case interface{ Unwrap() []error }:
		parts = joined.Unwrap()
	default:
		return []error{err}
	}
	var out []error
	for _, e := range parts {
		out = append(out, flatten(e)...)
	}
	return out
}

// parseConfig decodes a KubeSchedulerConfiguration in YAML or JSON. Unknown and repeated fields are errors. An object of
// another kind is refused before its fields are checked.
func parseConfig(raw []byte) (*configv1.KubeSchedulerConfiguration, error) {
	var kind metav1.TypeMeta
	want := configv1.SchemeGroupVersion.String()
	if err := yaml.Unmarshal(raw, &kind); err == nil && (kind.APIVersion != want || kind.Kind != "KubeSchedulerConfiguration") {
		return nil, fmt.Errorf("is %q of %q, want KubeSchedulerConfiguration of %s", kind.Kind, kind.APIVersion, want)
	}
	c := &configv1.KubeSchedulerConfiguration{}
	if err := plug.DecodePaths(raw, c); err != nil {
		return nil, errors.Join(err, decodeArgs(c))
	}
	return c, nil
}

// decodeArgs decodes the arguments of Kubernetes' plugins, and returns the errors, as far as c could be decoded itself. Those of a configuration without
// errors are decoded by their plugins.
func decodeArgs(c *configv1.KubeSchedulerConfiguration) error {
	into := map[string]func() any{
		"DefaultPreemption":               func() any { return new(configv1.DefaultPreemptionArgs) },
		"DynamicResources":                func() any { return new(configv1.DynamicResourcesArgs) },
		"InterPodAffinity":                func() any { return new(configv1.InterPodAffinityArgs) },
		"NodeAffinity":                    func() any { return new(configv1.NodeAffinityArgs) },
		"NodeResourcesBalancedAllocation": func() any { return new(configv1.NodeResourcesBalancedAllocationArgs) },
		"NodeResourcesFit":                func() any { return new(configv1.NodeResourcesFitArgs) },
		"PodTopologySpread":               func() any { return new(configv1.PodTopologySpreadArgs) },
		"VolumeBinding":                   func() any { return new(configv1.VolumeBindingArgs) },
	}
	var errs []error
	for i, p := range c.Profiles {
		for _, given := range p.PluginConfig {
			args := into[given.Name]
			if args == nil || len(given.Args.Raw) == 0 {
				continue
			}
			if err := plug.DecodePaths(given.Args.Raw, args()); err != nil {
				errs = append(errs, atArgs(profilePath(i), p.PluginConfig, given.Name, utilerrors.NewAggregate(flatten(err)))...)
			}
		}
	}
	return errors.Join(errs...)
}

// settings is a configuration without the profiles' plugins.
type settings struct {
	percentage  int32
	backoff     backoff
	parallelism int
	profiles    []configv1.KubeSchedulerProfile
}

// checkConfig reads c's settings and collects their errors.
func checkConfig(c *configv1.KubeSchedulerConfiguration) (settings, field.ErrorList) {
	s := settings{backoff: defaultBackoff, parallelism: 16, profiles: c.Profiles}
	var errs field.ErrorList
	wrong := func(name string, value any, detail string) {
		errs = append(errs, field.Invalid(field.NewPath(name), value, detail))
	}
	if c.Parallelism != nil {
		if s.parallelism = int(*c.Parallelism); s.parallelism <= 0 {
			wrong("parallelism", s.parallelism, "should be an integer value greater than zero")
		}
	}
	if s.percentage = value(c.PercentageOfNodesToScore); s.percentage < 0 || s.percentage > 100 {
		wrong("percentageOfNodesToScore", s.percentage, "not in valid range [0-100]")
	}
	if c.PodInitialBackoffSeconds != nil {
		if s.backoff.first = seconds(*c.PodInitialBackoffSeconds); s.backoff.first <= 0 {
			wrong("podInitialBackoffSeconds", *c.PodInitialBackoffSeconds, "must be greater than 0")
		}
	}
	if c.PodMaxBackoffSeconds != nil {
		s.backoff.last = seconds(*c.PodMaxBackoffSeconds)
	}
	if s.backoff.last < s.backoff.first {
		wrong("podMaxBackoffSeconds", int64(s.backoff.last.Seconds()), "must be greater than or equal to PodInitialBackoffSeconds")
	}
	errs = append(errs, checkExtenders(field.NewPath("extenders"), c.Extenders)...)
	if len(s.profiles) == 0 {
		s.profiles = []configv1.KubeSchedulerProfile{{}}
	}
	return s, append(errs, checkProfiles(s.profiles)...)
}

// profilePath returns the path of the profile with an index.
func profilePath(i int) *field.Path { return field.NewPath("profiles").Index(i) }

func checkProfiles(profiles []configv1.KubeSchedulerProfile) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, p := range profiles {
		name, path := profileName(p), profilePath(i)
		if seen[name] {
			errs = append(errs, field.Duplicate(path.Child("schedulerName"), name))
		}
		if p.SchedulerName == nil && len(profiles) > 1 || name == "" {
			errs = append(errs, field.Required(path.Child("schedulerName"), ""))
		}
		seen[name] = true
		if n := p.PercentageOfNodesToScore; n != nil && (*n < 0 || *n > 100) {
			errs = append(errs, field.Invalid(path.Child("percentageOfNodesToScore"), *n, "not in valid range [0-100]"))
		}
	}
	return errs
}

// profileName returns the schedulerName of a profile.
func profileName(p configv1.KubeSchedulerProfile) string {
	if p.SchedulerName == nil {
		return corev1.DefaultSchedulerName
	}
	return *p.SchedulerName
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
