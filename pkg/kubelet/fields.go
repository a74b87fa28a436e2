package kubelet

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Support is how far a node honours a field of a pod.
type Support int

// The zero value is full support, as in Kubernetes. Partly has the difference that the field's note describes. An Ignored
// field is accepted and has no effect.
const (
	Honoured Support = iota
	Partly
	Ignored
)

// String returns the word that the documentation uses.
func (s Support) String() string { return [...]string{"yes", "partly", "no"}[s] }

// Field is the support for one field of the pod spec. The entry also applies to the fields inside it, unless their type
// has its own entries.
type Field struct {
	Support Support
	Note    string // the difference from Kubernetes
	// NoWarning are the values that cause no warning: the defaults, and values that describe what containers have anyway.
	NoWarning []string
	// NeedsRoot: the nodes of a daemon that an ordinary user runs ignore the field.
	NeedsRoot bool
}

// Fields is a table of field support: by the name of the Go type that has the field, then by the field's JSON name. The
// entry Rest is for all other fields of the type.
type Fields map[string]map[string]Field

// Others is the name of the entry for a type's other fields.
const Others = "*"

func (f Fields) find(typ, name string) (Field, bool) {
	if field, ok := f[typ][name]; ok {
		return field, true
	}
	field, ok := f[typ][Others]
	return field, ok
}

// Field returns the support of the tier's nodes for the field name of the Go type typ: the runtime's entry, or else the
// kubelet's.
func (t Tier) Field(typ, name string) (Field, bool) {
	if field, ok := t.Fields.find(typ, name); ok {
		return field, true
	}
	return ownFields.find(typ, name)
}

var noVolume = Field{Support: Ignored, Note: "a pod with such a volume does not start"}

// ownFields are the fields that the scheduler, the API server and the kubelet handle without the runtime. The table of a
// runtime has all others.
var ownFields = Fields{
	"PodSpec": {
		"volumes":                       {},
		"initContainers":                {},
		"containers":                    {},
		"ephemeralContainers":           {},
		"restartPolicy":                 {},
		"terminationGracePeriodSeconds": {},
		"activeDeadlineSeconds":         {},
		"nodeSelector":                  {},
		"serviceAccountName":            {},
		"serviceAccount":                {},
		"automountServiceAccountToken":  {},
		"nodeName":                      {},
		"securityContext":               {},
		"imagePullSecrets":              {Support: Ignored, Note: "images are not pulled from registries"},
		"subdomain":                     {Support: Partly, Note: "pods have names in DNS where the daemon serves Services"},
		"affinity":                      {},
		"schedulerName":                 {},
		"tolerations":                   {},
		"priorityClassName":             {},
		"priority":                      {},
		"readinessGates":                {},
		"runtimeClassName":              {Support: Ignored, Note: "a node has one runtime"},
		"enableServiceLinks":            {},
		"preemptionPolicy":              {},
		"overhead":                      {Support: Partly, Note: "it is added to what the pod requests"},
		"topologySpreadConstraints":     {},
		"os":                            {},
		"schedulingGates":               {},
		"resourceClaims":                {Support: Ignored, Note: "a pod whose claims have devices does not start: the node has no device drivers"},
		"resources":                     {Support: Partly, Note: "the requests of the pod as a whole are accounted, and on process nodes its memory limit is watched; other limits of it have no effect"},
		"schedulingGroup":               {Note: "with the feature gate GenericWorkload; without it the API server drops the field, as in Kubernetes"},
	},
	"PodSecurityContext": {
		"windowsOptions": {Support: Ignored, Note: "there are no Windows nodes"},
		"runAsNonRoot":   {},
	},
	"SecurityContext": {
		"windowsOptions": {Support: Ignored, Note: "there are no Windows nodes"},
		"runAsNonRoot":   {},
	},
	"Container": {
		"name":                     {},
		"image":                    {Support: Partly, Note: "built-in images, those of the config's images map, and the host's programs"},
		"ports":                    {},
		"envFrom":                  {},
		"env":                      {},
		"resources":                {},
		"resizePolicy":             {},
		"restartPolicy":            {},
		"restartPolicyRules":       {Support: Partly, Note: "Restart is honoured; a pod with RestartAllContainers stays Pending, since no node declares the feature"},
		"volumeMounts":             {},
		"volumeDevices":            {Support: Ignored, Note: "there are no block volumes"},
		"livenessProbe":            {},
		"readinessProbe":           {},
		"startupProbe":             {},
		"lifecycle":                {},
		"terminationMessagePolicy": {},
		"imagePullPolicy":          {Support: Partly, Note: "nothing is pulled; an unknown image is ErrImageNeverPull with Never and ErrImagePull with the others"},
		"securityContext":          {},
	},
	"ContainerPort": {
		"name":          {},
		"hostPort":      {Support: Partly, Note: "a daemon that serves Services listens there for pods of all its nodes", NoWarning: []string{"0"}},
		"containerPort": {},
		"protocol":      {},
		"hostIP":        {Support: Partly, Note: "loopback addresses, and 0.0.0.0 for that of the node, 127.0.0.1"},
	},
	"EnvVarSource": {
		"fieldRef":         {},
		"resourceFieldRef": {},
		"configMapKeyRef":  {},
		"secretKeyRef":     {},
		"fileKeyRef":       {Support: Ignored, Note: "a container that needs it does not start"},
	},
	"ResourceRequirements": {
		"requests": {},
		"claims":   {Support: Ignored, Note: "a pod whose claims have devices does not start: the node has no device drivers"},
	},
	"VolumeMount": {
		"name":        {},
		"subPath":     {},
		"subPathExpr": {},
	},
	"Probe": {
		"initialDelaySeconds":           {},
		"timeoutSeconds":                {},
		"periodSeconds":                 {},
		"successThreshold":              {},
		"failureThreshold":              {},
		"terminationGracePeriodSeconds": {},
	},
	"ProbeHandler": {
		"httpGet":   {},
		"tcpSocket": {},
		"grpc":      {},
	},
	"Lifecycle": {
		"postStart": {},
		"preStop":   {},
	},
	"LifecycleHandler": {
		"httpGet":   {},
		"tcpSocket": {Support: Ignored, Note: "Kubernetes ignores it too"},
		"sleep":     {},
	},
	"VolumeSource": {
		"hostPath":              {},
		"emptyDir":              {},
		"secret":                {},
		"downwardAPI":           {},
		"configMap":             {},
		"projected":             {},
		"persistentVolumeClaim": {Support: Partly, Note: "volumes of the types hostPath and local; a pod with another one does not start"},
		"ephemeral":             {Support: Partly, Note: "volumes of the types hostPath and local; a pod with another one does not start"},
		"image":                 {Support: Partly, Note: "of images that are directories; programs in it may run. Containers that mount another one wait as for their own image"},
		Others:                  noVolume,
	},
	"EmptyDirVolumeSource": {
		"medium":    {Support: Partly, Note: "Memory is a directory in the machine's /dev/shm, where there is one; huge pages are not supported"},
		"sizeLimit": {Support: Partly, Note: "a pod whose volume is larger is evicted, on simulated nodes it is not"},
	},
	"VolumeProjection": {
		"secret":              {},
		"downwardAPI":         {},
		"configMap":           {},
		"serviceAccountToken": {},
		Others:                noVolume,
	},
}

// FieldWarnings returns a sentence for each field that a pod sets and a node of the tier ignores. Simulated nodes give no
// warnings, since none of their containers is real.
func FieldWarnings(spec *corev1.PodSpec, t Tier) []string {
	if t.Simulated {
		return nil
	}
	var out []string
	warnings(reflect.ValueOf(spec).Elem(), "spec", t, &out)
	return out
}

// isRoot reports whether this process runs as root.
func isRoot() bool { return os.Getuid() == 0 }

func warnings(v reflect.Value, path string, t Tier, out *[]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			warnings(v.Elem(), path, t, out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			warnings(v.Index(i), fmt.Sprintf("%s[%d]", path, i), t, out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fieldWarnings(v, i, path, t, out)
		}
	}
}

func fieldWarnings(v reflect.Value, i int, path string, t Tier, out *[]string) {
	field := v.Type().Field(i)
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	value := v.Field(i)
	if name == "" { // an embedded struct
		warnings(value, path, t, out)
		return
	}
	row, ok := t.Field(v.Type().Name(), name)
	if ok && row.NeedsRoot && !isRoot() {
		row.Support, row.Note = Ignored, "the daemon does not run as root"
	}
	if ok && row.Support == Ignored {
		if isRequest(value, row.NoWarning) {
			*out = append(*out, fmt.Sprintf("%s.%s: not supported on nodes of the %s runtime: %s", path, name, t.Name, row.Note))
		}
		return
	}
	warnings(value, path+"."+name, t, out)
}

// isRequest reports whether a field is set to a value that is not one of the usual ones.
func isRequest(v reflect.Value, usual []string) bool {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false
		}
		v = v.Elem()
	} else if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return false
	}
	text := fmt.Sprint(v.Interface())
	for _, u := range usual {
		if u == text {
			return false
		}
	}
	return true
}
