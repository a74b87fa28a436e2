package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// oldLabels are labels of nodes that have a newer name.
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
	at          *field.Path // of the template; nil in a pod
	list        []string
}

// maxWarnings bounds the warnings about one object. Answers have room for far fewer, and ports that are all the same would
// be told of in pairs.
const maxWarnings = 1000

func (w *warner) full() bool { return len(w.list) == maxWarnings }

func (w *warner) warn(at *field.Path, format string, args ...any) {
	if w.full() {
		return
	}
	w.list = append(w.list, at.String()+": "+fmt.Sprintf(format, args...))
}

// Warnings says what in a pod or template is probably not meant. at is where the template stands; nil in a pod.
func Warnings(s *corev1.PodSpec, annotations map[string]string, at *field.Path) []string {
	w := &warner{spec: s, annotations: annotations, at: at}
	w.placement()
	w.oldAnnotations()
	w.volumes()
	w.references()
	w.containers()
	w.ports()
	if grace := s.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.warn(at.Child("spec", "terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	return w.list
}

// placement warns about old labels and selectors that find nothing.
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
			w.term(&t.Preference, in.Child(preferred).Index(i).Child("preference"))
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
	for i, r := range t.MatchExpressions {
		if msg, ok := oldLabels[r.Key]; ok {
			w.warn(at.Child("matchExpressions").Index(i).Child("key"), "%s is %s", r.Key, msg)
		}
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

// volumes warns about kinds that no longer work, and files that a token hides.
func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i], w.at.Child("spec", "volumes").Index(i)
		old := func(there bool, name, msg string) {
			if there {
				w.warn(at.Child(name), "%s", msg)
			}
		}
		old(v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+")
		old(v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+")
		old(v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+")
		old(v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+")
		old(v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+")
		old(v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+")
		old(v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+")
		old(v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+")
		old(v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+")
	}
	w.tokenPaths()
}

func (w *warner) tokenPaths() {
	tokens := map[string]bool{}
	for i := range w.spec.Volumes {
		if p := w.spec.Volumes[i].Projected; p != nil {
			for j := range p.Sources {
				if t := p.Sources[j].ServiceAccountToken; t != nil {
					tokens[t.Path] = true
				}
			}
		}
	}
	if len(tokens) == 0 {
		return
	}
	for i := range w.spec.Volumes {
		p := w.spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		at := w.at.Child("spec", "volumes").Index(i).Child("projected", "sources")
		taken := func(path string, at *field.Path) {
			if tokens[path] {
				w.warn(at, "has duplicated path with ServiceAccountToken %q", path)
			}
		}
		for j := range p.Sources {
			s := &p.Sources[j]
			if s.ConfigMap != nil {
				for k, item := range s.ConfigMap.Items {
					taken(item.Path, at.Child("configMap").Index(k))
				}
			}
			if s.Secret != nil {
				for k, item := range s.Secret.Items {
					taken(item.Path, at.Child("secrets").Index(k))
				}
			}
			if s.DownwardAPI != nil {
				for k, item := range s.DownwardAPI.Items {
					taken(item.Path, at.Child("downwardAPI").Index(k))
				}
			}
			if s.ClusterTrustBundle != nil {
				taken(s.ClusterTrustBundle.Path, at.Child("ClusterTrustBundle"))
			}
		}
	}
}

// references warns about entries that are there twice or are empty.
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

// fractions warns about parts of bytes.
func (w *warner) fractions(list corev1.ResourceList, at *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			w.warn(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

func (w *warner) containers() {
	podArmor := w.spec.SecurityContext != nil && w.spec.SecurityContext.AppArmorProfile != nil
	eachContainer(w.spec, w.at.Child("spec"), func(c *corev1.Container, at *field.Path) {
		s := c.SecurityContext
		if len(w.annotations) > 0 && (s == nil || s.SeccompProfile == nil) {
			w.noSeccomp(corev1.SeccompContainerAnnotationKeyPrefix + c.Name)
		}
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		if _, ok := w.annotations[key]; ok && !podArmor && (w.at == nil || s == nil || s.AppArmorProfile == nil) {
			w.warn(w.at.Child("metadata", "annotations").Key(key), `deprecated since v1.30; use the "appArmorProfile" field instead`)
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			w.fraction(c.Resources.Limits, name, at, "limits")
			w.fraction(c.Resources.Requests, name, at, "requests")
		}
		w.env(c.Env, at)
	})
}

func (w *warner) fraction(list corev1.ResourceList, name corev1.ResourceName, at *field.Path, where string) {
	if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
		w.warn(at.Child("resources", where).Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

// env warns about a variable that hides another of its name without using it.
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

// ports warns about ports that are the same or may be.
func (w *warner) ports() {
	type place struct {
		port *corev1.ContainerPort
		at   *field.Path
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	seen := map[number][]place{}
	eachContainer(w.spec, w.at.Child("spec"), func(c *corev1.Container, at *field.Path) {
		for i := range c.Ports {
			p, here := &c.Ports[i], at.Child("ports").Index(i)
			if p.HostIP != "" && p.HostPort == 0 {
				w.warn(here, "hostIP set without hostPort: %+v", shownPort(p))
			}
			same := number{p.ContainerPort, p.Protocol}
			for _, o := range seen[same] {
				if w.full() {
					return
				}
				switch {
				case p.HostIP == o.port.HostIP && p.HostPort == o.port.HostPort:
					w.warn(here, "duplicate port definition with %s", o.at)
				case p.HostPort == 0 || o.port.HostPort == 0:
					w.warn(here, "overlapping port definition with %s", o.at)
				case p.HostPort == o.port.HostPort && (p.HostIP == "" || o.port.HostIP == ""):
					w.warn(here, "dangerously ambiguous port definition with %s", o.at)
				}
			}
			seen[same] = append(seen[same], place{p, here})
		}
	})
}

// shownPort is a port as the warning about it shows it: with the names of Go's fields.
func shownPort(p *corev1.ContainerPort) any {
	return struct {
		Name          string
		HostPort      int32
		ContainerPort int32
		Protocol      corev1.Protocol
		HostIP        string
	}{p.Name, p.HostPort, p.ContainerPort, p.Protocol, p.HostIP}
}

// NodeSelectorWarnings tells of labels of nodes that have newer names.
func NodeSelectorWarnings(s *corev1.NodeSelector, at *field.Path) []string {
	w := warner{}
	for i := range s.NodeSelectorTerms {
		w.term(&s.NodeSelectorTerms[i], at.Child("nodeSelectorTerms").Index(i))
	}
	return w.list
}

// OldLabel returns what is to be said about a label of nodes that has a newer name.
func OldLabel(key string) (message string, ok bool) {
	message, ok = oldLabels[key]
	return message, ok
}

// NameWarnings warns about the name of what makes pods, where it is longer or freer than a host's.
func NameWarnings(name string) []string {
	if check.Label(name, nil) == nil {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v",
		utilvalidation.IsDNS1123Label(name))}
}
