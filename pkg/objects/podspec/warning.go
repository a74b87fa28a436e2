package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// oldLabels maps deprecated node labels to their successors.
var oldLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"node-role.kubernetes.io/master":           `use "node-role.kubernetes.io/control-plane" instead`,
}

// warner collects the warnings about a pod or a template.
type warner struct {
	spec        *corev1.PodSpec
	annotations map[string]string
	at          *field.Path // path of the template; nil for a pod
	list        []string
}

// maxWarnings bounds the warnings about one object. Responses have room for far fewer, and equal ports would be warned of in
// pairs.
const maxWarnings = 1000

func (w *warner) full() bool { return len(w.list) == maxWarnings }

func (w *warner) warn(at *field.Path, format string, args ...any) {
	if !w.full() {
		w.add(at.String() + ": " + fmt.Sprintf(format, args...))
	}
}

func (w *warner) add(msg string) {
	if !w.full() {
		w.list = append(w.list, msg)
	}
}

// Warnings returns the warnings about a pod or template. at is the path of the template; nil for a pod.
func Warnings(s *corev1.PodSpec, annotations map[string]string, at *field.Path) []string {
	w := &warner{spec: s, annotations: annotations, at: at}
	w.placement()
	w.oldAnnotations()
	w.volumes()
	w.references()
	w.containers()
	w.ports()
	w.portNames()
	if grace := s.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.warn(at.Child("spec", "terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.podAffinity()
	w.addresses()
	return w.list
}

// placement warns about deprecated labels and empty selectors.
func (w *warner) placement() {
	at := w.at
	for _, key := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if msg, ok := oldLabels[key]; ok {
			w.warn(at.Child("spec", "nodeSelector").Key(key), "%s", msg)
		}
	}
	if w.spec.Affinity != nil && w.spec.Affinity.NodeAffinity != nil {
		n := w.spec.Affinity.NodeAffinity
		in := at.Child("spec", "affinity", "nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			for i, t := range n.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				w.term(&t, in.Child(required, "nodeSelectorTerms").Index(i))
			}
		}
		for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			w.preference(&t.Preference, in.Child(preferred).Index(i).Child("preference"))
		}
	}
	for i, c := range w.spec.TopologySpreadConstraints {
		in := at.Child("spec", "topologySpreadConstraints").Index(i)
		if msg, ok := oldLabels[c.TopologyKey]; ok {
			w.warn(in.Child("topologyKey"), "%s is %s", c.TopologyKey, msg)
		}
		if c.LabelSelector == nil {
			w.warn(in.Child("labelSelector"), "a null labelSelector results in matching no pod")
		}
	}
}

func (w *warner) term(t *corev1.NodeSelectorTerm, at *field.Path) {
	for i := range t.MatchExpressions {
		w.expression(&t.MatchExpressions[i], at.Child("matchExpressions").Index(i))
	}
}

// preference is like term, but also warns about invalid label values, which match no node.
func (w *warner) preference(t *corev1.NodeSelectorTerm, at *field.Path) {
	for i := range t.MatchExpressions {
		w.expression(&t.MatchExpressions[i], at.Child("matchExpressions").Index(i))
		for j, value := range t.MatchExpressions[i].Values {
			for _, msg := range content.IsLabelValue(value) {
				w.warn(at.Child("matchExpressions").Index(i).Child("values").Index(j), "%s is invalid, %s", value, msg)
			}
		}
	}
}

func (w *warner) expression(r *corev1.NodeSelectorRequirement, at *field.Path) {
	if msg, ok := oldLabels[r.Key]; ok {
		w.warn(at.Child("key"), "%s is %s", r.Key, msg)
	}
}

// podAffinity warns about terms that match no pod.
func (w *warner) podAffinity() {
	if w.spec.Affinity == nil {
		return
	}
	look := func(must []corev1.PodAffinityTerm, should []corev1.WeightedPodAffinityTerm, at *field.Path) {
		const msg = "a null labelSelector results in matching no pod"
		for i := range must {
			if must[i].LabelSelector == nil {
				w.warn(at.Child(required).Index(i).Child("labelSelector"), msg)
			}
		}
		for i := range should {
			if should[i].PodAffinityTerm.LabelSelector == nil {
				w.warn(at.Child(preferred).Index(i).Child("podAffinityTerm", "labelSelector"), msg)
			}
		}
	}
	at := w.at.Child("spec", "affinity")
	if a := w.spec.Affinity.PodAffinity; a != nil {
		look(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if a := w.spec.Affinity.PodAntiAffinity; a != nil {
		look(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
}

// addresses warns about ambiguous addresses.
func (w *warner) addresses() {
	if d := w.spec.DNSConfig; d != nil {
		for i, ip := range d.Nameservers {
			w.address(ip, w.at.Child("spec", "dnsConfig", "nameservers").Index(i))
		}
	}
	for i := range w.spec.HostAliases {
		w.address(w.spec.HostAliases[i].IP, w.at.Child("spec", "hostAliases").Index(i).Child("ip"))
	}
}

func (w *warner) address(ip string, at *field.Path) {
	for _, msg := range utilvalidation.GetWarningsForIP(at, ip) {
		w.add(msg)
	}
}

var deadAnnotations = []struct{ key, msg string }{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

func (w *warner) oldAnnotations() {
	if len(w.annotations) == 0 {
		return
	}
	for _, dead := range deadAnnotations {
		if _, ok := w.annotations[dead.key]; ok {
			w.warn(w.at.Child("metadata", "annotations").Key(dead.key), "%s", dead.msg)
		}
	}
}

// references warns about duplicate and empty entries.
func (w *warner) references() {
	s := w.spec
	var ips, secrets check.Seen[string]
	for i := range s.HostAliases {
		if ip := s.HostAliases[i].IP; ips.Again(ip) {
			w.warn(w.at.Child("spec", "hostAliases").Index(i).Child("ip"), "duplicate ip %q", ip)
		}
	}
	for i := range s.ImagePullSecrets {
		if secrets.Again(s.ImagePullSecrets[i].Name) {
			w.warn(w.at.Child("spec", "imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.ImagePullSecrets[i].Name)
		}
	}
	for i := range s.ImagePullSecrets {
		if s.ImagePullSecrets[i].Name == "" {
			w.warn(w.at.Child("spec", "imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", "")
		}
	}
	w.fractions(s.Overhead, w.at.Child("spec", "overhead"))
	if s.SecurityContext == nil || s.SecurityContext.SeccompProfile == nil {
		w.noSeccomp(corev1.SeccompPodAnnotationKey)
	}
}

func (w *warner) noSeccomp(key string) {
	if _, ok := w.annotations[key]; ok {
		w.warn(w.at.Child("metadata", "annotations").Key(key), `non-functional in v1.27+; use the "seccompProfile" field instead`)
	}
}

// fractions warns about fractional bytes.
func (w *warner) fractions(list corev1.ResourceList, at *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			w.warn(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

func (w *warner) containers() {
	eachContainer(w.spec, w.at.Child("spec"), func(c *corev1.Container, at *field.Path) {
		s := c.SecurityContext
		if len(w.annotations) > 0 && (s == nil || s.SeccompProfile == nil) {
			w.noSeccomp(corev1.SeccompContainerAnnotationKeyPrefix + c.Name)
		}
		w.appArmor(c)
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			w.fraction(c.Resources.Limits, name, at, "limits")
			w.fraction(c.Resources.Requests, name, at, "requests")
		}
		w.env(c.Env, at)
	})
}

// appArmor warns about a container's deprecated AppArmor annotation. In a template, a container that also has the field gets no
// warning. In a pod the field shows nothing, since defaulting has copied the annotation to it: there, an annotation that equals the
// pod's own profile gets none.
func (w *warner) appArmor(c *corev1.Container) {
	key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
	value, ok := w.annotations[key]
	if !ok || w.at == nil && w.spec.OS != nil && w.spec.OS.Name == corev1.Windows {
		return
	}
	if w.at != nil && c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return
	}
	if profile := appArmorOf(value); profile == nil || !equality.Semantic.DeepEqual(profile, podAppArmor(w.spec)) {
		w.warn(w.at.Child("metadata", "annotations").Key(key), `deprecated since v1.30; use the "appArmorProfile" field instead`)
	}
}

func (w *warner) fraction(list corev1.ResourceList, name corev1.ResourceName, at *field.Path, where string) {
	if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
		w.warn(at.Child("resources", where).Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

// env warns about a variable that overrides an earlier one of its name without referring to it.
func (w *warner) env(vars []corev1.EnvVar, at *field.Path) {
	var names check.Seen[string]
	for i := range vars {
		e := &vars[i]
		if !names.Again(e.Name) {
			continue
		}
		ref := "$(" + e.Name + ")"
		if e.ValueFrom != nil || e.Value == ref || !strings.Contains(e.Value, ref) {
			w.warn(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
	}
}

// NodeSelectorWarnings warns about deprecated node labels.
func NodeSelectorWarnings(s *corev1.NodeSelector, at *field.Path) []string {
	w := warner{}
	for i := range s.NodeSelectorTerms {
		w.term(&s.NodeSelectorTerms[i], at.Child("nodeSelectorTerms").Index(i))
	}
	return w.list
}

// OldLabel returns the warning about a deprecated node label.
func OldLabel(key string) (message string, ok bool) {
	message, ok = oldLabels[key]
	return message, ok
}

// NameWarnings warns about the name of a workload that is not a valid hostname.
func NameWarnings(name string) []string {
	if check.Label(name, nil) == nil {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v",
		utilvalidation.IsDNS1123Label(name))}
}
