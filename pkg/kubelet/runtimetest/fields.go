package runtimetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// sections are the types whose fields the tables of field support list, with their headings in the documentation.
var sections = []struct {
	title string
	typ   reflect.Type
}{
	{"spec", reflect.TypeFor[corev1.PodSpec]()},
	{"spec.securityContext", reflect.TypeFor[corev1.PodSecurityContext]()},
	{"spec.containers[], spec.initContainers[]", reflect.TypeFor[corev1.Container]()},
	{"….securityContext", reflect.TypeFor[corev1.SecurityContext]()},
	{"….ports[]", reflect.TypeFor[corev1.ContainerPort]()},
	{"….env[].valueFrom", reflect.TypeFor[corev1.EnvVarSource]()},
	{"….resources", reflect.TypeFor[corev1.ResourceRequirements]()},
	{"….volumeMounts[]", reflect.TypeFor[corev1.VolumeMount]()},
	{"….livenessProbe, ….readinessProbe, ….startupProbe", reflect.TypeFor[corev1.Probe]()},
	{"… of a probe", reflect.TypeFor[corev1.ProbeHandler]()},
	{"….lifecycle", reflect.TypeFor[corev1.Lifecycle]()},
	{"….lifecycle.postStart, ….lifecycle.preStop", reflect.TypeFor[corev1.LifecycleHandler]()},
	{"spec.volumes[]", reflect.TypeFor[corev1.VolumeSource]()},
	{"spec.volumes[].emptyDir", reflect.TypeFor[corev1.EmptyDirVolumeSource]()},
	{"spec.volumes[].projected.sources[]", reflect.TypeFor[corev1.VolumeProjection]()},
}

// fieldNames returns the JSON names of a type's fields, without those of embedded types.
func fieldNames(typ reflect.Type) []string {
	var out []string
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// fieldsAreListed checks that the tier's table and the kubelet's have an entry for each field of a pod and no other, and
// that an entry describes its difference from Kubernetes.
func fieldsAreListed(f *fixture) {
	t := f.driver.Tier
	known := map[string]map[string]bool{}
	for _, s := range sections {
		typ := s.typ.Name()
		known[typ] = map[string]bool{kubelet.Others: t.Simulated}
		for _, name := range fieldNames(s.typ) {
			known[typ][name] = true
			field, ok := t.Field(typ, name)
			if !ok {
				f.Errorf("%s.%s has no entry", typ, name)
			}
			if field.Support != kubelet.Honoured && field.Note == "" && !t.Simulated {
				f.Errorf("the entry %s.%s does not describe the difference", typ, name)
			}
		}
	}
	for typ, entries := range t.Fields {
		for name := range entries {
			if !known[typ][name] {
				f.Errorf("the entry %s.%s is for no field", typ, name)
			}
		}
	}
}

// SupportedField is a field of a pod that the nodes of a tier honour, at least partly.
type SupportedField struct {
	Type, Name string // of the Go type that has the field, and of the field in JSON
	GoName     string
}

// SupportedFields returns the fields that the nodes of a tier honour, at least partly.
func SupportedFields(t kubelet.Tier) []SupportedField {
	var out []SupportedField
	for _, s := range sections {
		for _, name := range fieldNames(s.typ) {
			if field, _ := t.Field(s.typ.Name(), name); field.Support == kubelet.Ignored {
				continue
			}
			for i := range s.typ.NumField() {
				if own, _, _ := strings.Cut(s.typ.Field(i).Tag.Get("json"), ","); own == name {
					out = append(out, SupportedField{s.typ.Name(), name, s.typ.Field(i).Name})
				}
			}
		}
	}
	return out
}

// FieldsPage returns the documentation of the support for a pod's fields, with a column for each tier.
func FieldsPage(tiers ...kubelet.Tier) string {
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./pkg/daemon from the fields.go of pkg/kubelet and its runtimes: change those. -->\n\n# The fields of a pod\n\n" +
		"The runtime of a node decides what the node can do. `yes` is done as in Kubernetes, `partly` with the difference in the note.\n" +
		"A field with `no` is accepted and has no effect: a request that sets it gets a `Warning`, and the pod gets an\n" +
		"Event. A request also gets a `Warning` for a value that this machine can't give, such as a `mountPath` or a `runAsUser` without mount namespaces.\n" +
		"The containers of a simulated node (`sim`) are not real, so there are no warnings about them. A field that is not\n" +
		"listed shares the row of the field that contains it. Fields with `yes` or `partly` have tests: [fields.txt](../pkg/daemon/testdata/fields.txt).\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| field |", s.title)
		for _, t := range tiers {
			b.WriteString(" " + t.Name + " |")
		}
		b.WriteString(" note |\n|---|" + strings.Repeat("---|", len(tiers)) + "---|\n")
		for _, name := range fieldNames(s.typ) {
			fmt.Fprintf(&b, "| `%s` |", name)
			for _, t := range tiers {
				field, _ := t.Field(s.typ.Name(), name)
				fmt.Fprintf(&b, " %v |", field.Support)
			}
			fmt.Fprintf(&b, " %s |\n", fieldNote(s.typ.Name(), name, tiers))
		}
	}
	return b.String()
}

// fieldNote returns the notes of the tiers on a field. The notes begin with the tier's name if they differ. A simulated
// tier that ignores the field without a note shares those of the others.
func fieldNote(typ, name string, tiers []kubelet.Tier) string {
	var notes, named []string
	for _, t := range tiers {
		field, _ := t.Field(typ, name)
		if t.Simulated && field.Support == kubelet.Ignored && field.Note == "" {
			continue
		}
		if !slices.Contains(notes, field.Note) {
			notes = append(notes, field.Note)
		}
		if field.Note != "" {
			named = append(named, t.Name+": "+field.Note)
		}
	}
	if len(notes) == 1 {
		return notes[0]
	}
	return strings.Join(named, "; ")
}
