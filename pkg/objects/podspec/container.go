package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

var messagePolicies = []corev1.TerminationMessagePolicy{
	corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError,
}

// common checks the fields of all kinds of containers.
func (v *validator) common(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, check.Label(c.Name, at, "name")...)
	}
	if c.Image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	}
	errs = append(errs, check.Named(c.TerminationMessagePolicy, messagePolicies, at, "terminationMessagePolicy")...)
	errs = append(errs, validatePorts(c.Ports, at)...)
	errs = append(errs, v.env(c.Env, at)...)
	errs = append(errs, validateEnvFrom(c.EnvFrom, at)...)
	errs = append(errs, v.mounts(c, at)...)
	errs = append(errs, v.devices(c, at)...)
	errs = append(errs, volume.ValidatePullPolicy(c.ImagePullPolicy, at, "imagePullPolicy")...)
	errs = append(errs, v.resources(&c.Resources, at)...)
	errs = append(errs, v.resizePolicy(c.ResizePolicy, at)...)
	return append(errs, v.security(c.SecurityContext, at)...)
}

func (v *validator) containers(at *field.Path) field.ErrorList {
	if len(v.spec.Containers) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	var names check.Seen[string]
	for i := range v.spec.Containers {
		c, idx := &v.spec.Containers[i], at.Index(i)
		errs = append(errs, v.common(c, idx)...)
		if names.Again(c.Name) {
			errs = append(errs, field.Duplicate(idx.Child("name"), c.Name))
		}
		errs = append(errs, v.lifecycle(c.Lifecycle, idx)...)
		errs = append(errs, v.probes(c, idx)...)
		errs = append(errs, restartRules(c, idx)...)
	}
	return append(errs, hostPortConflicts(v.spec.Containers, at)...)
}

// namesOf returns the names of containers.
func namesOf(lists ...[]corev1.Container) *check.Seen[string] {
	names := &check.Seen[string]{}
	for _, list := range lists {
		for i := range list {
			names.Again(list[i].Name)
		}
	}
	return names
}

func (v *validator) initContainers(at *field.Path) field.ErrorList {
	if len(v.spec.InitContainers) == 0 {
		return nil
	}
	at = at.Child("initContainers")
	var errs field.ErrorList
	names, others := check.Seen[string]{}, namesOf(v.spec.Containers)
	for i := range v.spec.InitContainers {
		c, idx := &v.spec.InitContainers[i], at.Index(i)
		errs = append(errs, v.common(c, idx)...)
		errs = append(errs, initRestartRules(c, idx)...)
		if others.Has(c.Name) || c.Name != "" && names.Again(c.Name) {
			errs = append(errs, field.Duplicate(idx.Child("name"), c.Name))
		}
		errs = append(errs, hostPortConflicts(v.spec.InitContainers[i:i+1], at)...)
		if isSidecar(c) {
			errs = append(errs, v.lifecycle(c.Lifecycle, idx)...)
			errs = append(errs, v.probes(c, idx)...)
			continue
		}
		errs = append(errs, onlySidecars(c, idx)...)
		if !v.restartsInit {
			errs = append(errs, noRestartOfInit(c.ResizePolicy, idx.Child("resizePolicy"))...)
		}
	}
	return errs
}

// noRestartOfInit rejects the resize policy RestartContainer for an init container that is not a sidecar.
func noRestartOfInit(policies []corev1.ContainerResizePolicy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range policies {
		if policies[i].RestartPolicy == corev1.RestartContainer {
			errs = append(errs, field.Invalid(at.Index(i).Child("restartPolicy"), policies[i].RestartPolicy,
				"must not be set to 'RestartContainer' for non-sidecar initContainers"))
		}
	}
	return errs
}

// restartsInit reports whether the spec has a policy that noRestartOfInit rejects.
func restartsInit(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool {
		return !isSidecar(&c) && noRestartOfInit(c.ResizePolicy, nil) != nil
	})
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// onlySidecars rejects fields that only sidecars may have in an ordinary init container.
func onlySidecars(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(set bool, name string) {
		if set {
			errs = append(errs, field.Forbidden(at.Child(name), "may not be set for init containers without restartPolicy=Always"))
		}
	}
	forbid(c.Lifecycle != nil, "lifecycle")
	forbid(c.LivenessProbe != nil, "livenessProbe")
	forbid(c.ReadinessProbe != nil, "readinessProbe")
	forbid(c.StartupProbe != nil, "startupProbe")
	return errs
}

func (v *validator) ephemeralContainers(at *field.Path) field.ErrorList {
	if len(v.spec.EphemeralContainers) == 0 {
		return nil
	}
	at = at.Child("ephemeralContainers")
	var errs field.ErrorList
	names, lasting := check.Seen[string]{}, namesOf(v.spec.Containers, v.spec.InitContainers)
	for i := range v.spec.EphemeralContainers {
		e, idx := &v.spec.EphemeralContainers[i], at.Index(i)
		c := (*corev1.Container)(&e.EphemeralContainerCommon)
		errs = append(errs, v.common(c, idx)...)
		errs = append(errs, imageSpaces(c, i, at)...)
		if lasting.Has(e.Name) || names.Again(e.Name) {
			errs = append(errs, field.Duplicate(idx.Child("name"), e.Name))
		}
		if e.TargetContainerName != "" && !lasting.Has(e.TargetContainerName) {
			errs = append(errs, field.NotFound(idx.Child("targetContainerName"), e.TargetContainerName))
		}
		errs = append(errs, notEphemeral(c, idx)...)
	}
	return errs
}

// notEphemeral rejects fields that ephemeral containers may not have.
func notEphemeral(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(set bool, at *field.Path) {
		if set {
			errs = append(errs, field.Forbidden(at, "cannot be set for an Ephemeral Container"))
		}
	}
	forbid(c.Ports != nil, at.Child("ports"))
	r := &c.Resources
	forbid(r.Limits != nil || r.Requests != nil || r.Claims != nil, at.Child("resources"))
	forbid(c.ResizePolicy != nil, at.Child("resizePolicy"))
	forbid(c.RestartPolicy != nil, at.Child("restartPolicy"))
	forbid(c.RestartPolicyRules != nil, at.Child("restartPolicyRules"))
	forbid(c.LivenessProbe != nil, at.Child("livenessProbe"))
	forbid(c.ReadinessProbe != nil, at.Child("readinessProbe"))
	forbid(c.StartupProbe != nil, at.Child("startupProbe"))
	forbid(c.Lifecycle != nil, at.Child("lifecycle"))
	for i := range c.VolumeMounts {
		forbid(c.VolumeMounts[i].SubPath != "", at.Child("volumeMounts").Index(i).Child("subPath"))
		forbid(c.VolumeMounts[i].SubPathExpr != "", at.Child("volumeMounts").Index(i).Child("subPathExpr"))
	}
	return errs
}

// imageSpaces rejects spaces around the image of the i-th container of a list, for pods only: in templates they are valid
// for compatibility.
func imageSpaces(c *corev1.Container, i int, at *field.Path, child ...string) field.ErrorList {
	if len(strings.TrimSpace(c.Image)) == len(c.Image) {
		return nil
	}
	return field.ErrorList{field.Invalid(check.Below(at, child).Index(i).Child("image"), c.Image, "must not have leading or trailing whitespace")}
}

var (
	containerRestarts = []corev1.ContainerRestartPolicy{
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure,
	}
	ruleActions = []corev1.ContainerRestartRuleAction{
		corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers,
	}
	exitOperators = []corev1.ContainerRestartRuleOnExitCodesOperator{
		corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn,
	}
)

// initRestartRules checks an init container's restart policy, and its rules if it has a policy.
func initRestartRules(c *corev1.Container, at *field.Path) field.ErrorList {
	if c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0 {
		return field.ErrorList{field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")}
	}
	return restartRules(c, at)
}

// restartRules checks a container's restart policy and its rules.
func restartRules(c *corev1.Container, at *field.Path) field.ErrorList {
	if c.RestartPolicy == nil && len(c.RestartPolicyRules) == 0 {
		return nil
	}
	var errs field.ErrorList
	rules := at.Child("restartPolicyRules")
	if c.RestartPolicy != nil {
		errs = append(errs, check.OneOf(*c.RestartPolicy, containerRestarts, at, "restartPolicy")...)
	} else if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	if len(c.RestartPolicyRules) > 20 {
		errs = append(errs, field.TooMany(rules, len(c.RestartPolicyRules), 20))
	}
	for i := range c.RestartPolicyRules {
		rule, idx := &c.RestartPolicyRules[i], rules.Index(i)
		errs = append(errs, check.OneOf(rule.Action, ruleActions, idx, "action")...)
		if rule.ExitCodes == nil {
			errs = append(errs, field.Required(idx.Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, check.OneOf(rule.ExitCodes.Operator, exitOperators, idx, "exitCodes", "operator")...)
		if n := len(rule.ExitCodes.Values); n > 255 {
			errs = append(errs, field.TooMany(idx.Child("exitCodes", "values"), n, 255))
		}
	}
	return errs
}

// hostPortConflicts checks that no two containers use the same host port.
func hostPortConflicts(containers []corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var taken map[string]bool
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if taken[key] {
				errs = append(errs, field.Duplicate(at.Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			if taken == nil {
				taken = map[string]bool{}
			}
			taken[key] = true
		}
	}
	return errs
}
