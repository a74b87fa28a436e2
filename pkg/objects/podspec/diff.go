package podspec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
)

// Diff shows what differs between two specs, as the message about a forbidden change does.
func Diff(old, now *corev1.PodSpec) string { return diff.Diff(shown{old}, shown{now}) }

// DiffContainer shows what differs between two ephemeral containers.
func DiffContainer(old, now *corev1.EphemeralContainer) string {
	return DiffValues(old, now)
}

// DiffValues shows what differs between two values of the core API.
func DiffValues[T any](old, now *T) string { return diff.Diff(shown{old}, shown{now}) }

// shown marshals a value as Kubernetes shows it in such messages: the fields of its internal types, by their names in Go,
// in their order there, none left out.
type shown struct{ value any }

// MarshalJSON implements json.Marshaler.
func (s shown) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := show(&b, reflect.ValueOf(s.value))
	return b.Bytes(), err
}

// internalSpec is the order of the fields of a pod's spec in the internal type; what is not here follows.
var internalSpec = strings.Fields(`Volumes InitContainers Containers EphemeralContainers RestartPolicy
	TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName
	AutomountServiceAccountToken NodeName SecurityContext ImagePullSecrets Hostname Subdomain SetHostnameAsFQDN Affinity
	SchedulerName Tolerations HostAliases PriorityClassName Priority PreemptionPolicy DNSConfig ReadinessGates
	RuntimeClassName Overhead EnableServiceLinks TopologySpreadConstraints OS SchedulingGates ResourceClaims Resources
	HostnameOverride SchedulingGroup`)

// hostFields stand in the internal type's security context.
var hostFields = []string{"HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers"}

var internalSecurity = strings.Fields(`SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot SupplementalGroups
	SupplementalGroupsPolicy FSGroup FSGroupChangePolicy Sysctls SeccompProfile AppArmorProfile SELinuxChangePolicy`)

func show(b *bytes.Buffer, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("null")
			return nil
		}
		return show(b, v.Elem())
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return plainJSON(b, v)
		}
		return showList(b, v)
	case reflect.Struct:
		if v.Type().PkgPath() == reflect.TypeFor[corev1.PodSpec]().PkgPath() {
			return showStruct(b, v)
		}
	}
	return plainJSON(b, v)
}

func plainJSON(b *bytes.Buffer, v reflect.Value) error {
	raw, err := json.Marshal(v.Interface())
	b.Write(raw)
	return err
}

func showList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := show(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// fieldsOf writes an object's fields.
type fieldsOf struct {
	b *bytes.Buffer
	n int
}

func (f *fieldsOf) add(name string, v reflect.Value) error {
	if f.n > 0 {
		f.b.WriteByte(',')
	}
	f.n++
	f.b.WriteString(`"` + name + `":`)
	return show(f.b, v)
}

func (f *fieldsOf) addNamed(names []string, v reflect.Value) error {
	for _, name := range names {
		if err := f.add(name, v.FieldByName(name)); err != nil {
			return err
		}
	}
	return nil
}

// addAll adds a struct's fields, and those of embedded ones in their place.
func (f *fieldsOf) addAll(v reflect.Value) error {
	for i := range v.NumField() {
		var err error
		if field := v.Type().Field(i); field.Anonymous {
			err = f.addAll(v.Field(i))
		} else {
			err = f.add(field.Name, v.Field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func showStruct(b *bytes.Buffer, v reflect.Value) error {
	f := fieldsOf{b: b}
	b.WriteByte('{')
	var err error
	switch s := v.Interface().(type) {
	case corev1.PodSpec:
		err = f.addSpec(v, &s)
	default:
		err = f.addAll(v)
	}
	b.WriteByte('}')
	return err
}

func (f *fieldsOf) addSpec(v reflect.Value, s *corev1.PodSpec) error {
	for _, name := range internalSpec {
		if name != "SecurityContext" {
			if err := f.add(name, v.FieldByName(name)); err != nil {
				return err
			}
			continue
		}
		f.b.WriteString(`,"SecurityContext":{`)
		inner := fieldsOf{b: f.b}
		if err := inner.addNamed(hostFields, v); err != nil {
			return err
		}
		context := s.SecurityContext
		if context == nil {
			context = &corev1.PodSecurityContext{}
		}
		if err := inner.addNamed(internalSecurity, reflect.ValueOf(context).Elem()); err != nil {
			return err
		}
		f.b.WriteByte('}')
	}
	return nil
}
