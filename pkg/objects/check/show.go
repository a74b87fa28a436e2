package check

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Shown returns value as Kubernetes formats it in messages: with all fields of its internal type, by their Go names and in
// their order.
func Shown(value any) json.Marshaler { return shown{value} }

// ImmutableShown checks that a field did not change. The error contains the new value.
func ImmutableShown(now, old any, at *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, Shown(now), validation.FieldImmutableErrorMsg).WithOrigin("immutable")}
}

type shown struct{ value any }

// MarshalJSON implements json.Marshaler.
func (s shown) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := show(&b, reflect.ValueOf(s.value))
	return b.Bytes(), err
}

// internalSpec is the order of fields in the internal pod spec; fields that are not listed follow.
var internalSpec = strings.Fields(`Volumes InitContainers Containers EphemeralContainers RestartPolicy
	TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName
	AutomountServiceAccountToken NodeName SecurityContext ImagePullSecrets Hostname Subdomain SetHostnameAsFQDN Affinity
	SchedulerName Tolerations HostAliases PriorityClassName Priority PreemptionPolicy DNSConfig ReadinessGates
	RuntimeClassName Overhead EnableServiceLinks TopologySpreadConstraints OS SchedulingGates ResourceClaims Resources
	HostnameOverride SchedulingGroup`)

// internalOrder returns the order of fields of other internal types that differ. It is a function so that the program's start does
// not build the lists.
func internalOrder(value any) []string {
	switch value.(type) {
	case corev1.VolumeSource:
		return strings.Fields(`HostPath EmptyDir GCEPersistentDisk AWSElasticBlockStore GitRepo Secret NFS ISCSI Glusterfs
			PersistentVolumeClaim RBD Quobyte FlexVolume Cinder CephFS Flocker DownwardAPI FC AzureFile ConfigMap VsphereVolume
			AzureDisk PhotonPersistentDisk Projected PortworxVolume ScaleIO StorageOS CSI Ephemeral Image`)
	case corev1.PersistentVolumeSource:
		return strings.Fields(`GCEPersistentDisk AWSElasticBlockStore HostPath Glusterfs NFS RBD Quobyte ISCSI FlexVolume Cinder
			CephFS FC Flocker AzureFile VsphereVolume AzureDisk PhotonPersistentDisk PortworxVolume ScaleIO Local StorageOS CSI`)
	}
	return nil
}

// hostFields are in the internal type's security context.
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
	case reflect.Map:
		if !v.IsNil() && isOfAPI(v.Type()) {
			return showMap(b, v)
		}
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/api/") {
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

func showMap(b *bytes.Buffer, v reflect.Value) error {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	f := fieldsOf{b: b}
	b.WriteByte('{')
	for _, key := range keys {
		if err := f.add(key.String(), v.MapIndex(key)); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// fieldsOf encodes an object's fields.
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

// addAll adds a struct's fields, with those of embedded structs inline.
func (f *fieldsOf) addAll(v reflect.Value) error {
	if order := internalOrder(v.Interface()); order != nil {
		return f.addNamed(order, v)
	}
	for i := range v.NumField() {
		var err error
		field := v.Type().Field(i)
		switch inner := strings.HasPrefix(field.Type.PkgPath(), "k8s.io/api/"); {
		case field.Anonymous && inner:
			err = f.addAll(v.Field(i))
		case field.Anonymous: // metadata
			err = f.addTagged(v.Field(i))
		default:
			err = f.add(field.Name, v.Field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addTagged adds the fields of a struct that are in JSON.
func (f *fieldsOf) addTagged(v reflect.Value) error {
	raw, err := json.Marshal(v.Interface())
	if raw = bytes.TrimSuffix(bytes.TrimPrefix(raw, []byte("{")), []byte("}")); len(raw) == 0 {
		return err
	}
	if f.n > 0 {
		f.b.WriteByte(',')
	}
	f.n++
	f.b.Write(raw)
	return err
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
