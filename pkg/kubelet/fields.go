package kubelet

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

//go:generate go test -run TestFieldsPage -update .

// support says how far a tier does what a field asks for.
type support int

const (
	honoured support = iota
	partly
	ignored
)

func (s support) String() string { return [...]string{"yes", "partly", "no"}[s] }

// fieldRow says what becomes of one field of the pod spec. What is below a field shares its row, unless its type has rows
// of its own.
type fieldRow struct {
	field        string // as in YAML
	process, sim support
	note         string
	// usual are values that ask for nothing: defaults, and what is so anyway. There is no warning about them.
	usual []string
}

// in returns the row's support in a tier.
func (r fieldRow) in(t Tier) support {
	if t.Simulated {
		return r.sim
	}
	return r.process
}

// fieldRows are the rows by the Go type that has the field.
var fieldRows = map[string][]fieldRow{
	"PodSpec": {
		{"volumes", honoured, ignored, "", nil},
		{"initContainers", honoured, partly, "simulated ones run until a rule of the pod ends them", nil},
		{"containers", honoured, honoured, "", nil},
		{"ephemeralContainers", ignored, ignored, "use exec to look into a container", nil},
		{"restartPolicy", honoured, honoured, "", nil},
		{"terminationGracePeriodSeconds", honoured, partly, "simulated containers end at once", nil},
		{"activeDeadlineSeconds", honoured, honoured, "", nil},
		{"dnsPolicy", ignored, ignored, "containers use the machine's own resolver", []string{"ClusterFirst", "Default"}},
		{"nodeSelector", honoured, honoured, "", nil},
		{"serviceAccountName", honoured, honoured, "", nil},
		{"serviceAccount", honoured, honoured, "", nil},
		{"automountServiceAccountToken", honoured, ignored, "", nil},
		{"nodeName", honoured, honoured, "", nil},
		{"hostNetwork", honoured, honoured, "", nil},
		{"hostPID", honoured, ignored, "containers see the machine's processes in any case", nil},
		{"hostIPC", honoured, ignored, "containers share the machine's IPC in any case", nil},
		{"shareProcessNamespace", partly, ignored, "containers see all of the machine's processes in any case", nil},
		{"securityContext", honoured, ignored, "", nil},
		{"imagePullSecrets", ignored, ignored, "images are not pulled from registries", nil},
		{"hostname", partly, ignored, "it is in the variable HOSTNAME; the system's own name stays", nil},
		{"subdomain", ignored, ignored, "pods have no names in DNS", nil},
		{"affinity", honoured, honoured, "", nil},
		{"schedulerName", honoured, honoured, "", nil},
		{"tolerations", honoured, honoured, "", nil},
		{"hostAliases", ignored, ignored, "the machine's hosts file stays as it is", nil},
		{"priorityClassName", honoured, honoured, "", nil},
		{"priority", honoured, honoured, "", nil},
		{"dnsConfig", ignored, ignored, "containers use the machine's own resolver", nil},
		{"readinessGates", honoured, honoured, "", nil},
		{"runtimeClassName", ignored, ignored, "a node has one runtime", nil},
		{"enableServiceLinks", honoured, ignored, "", nil},
		{"preemptionPolicy", honoured, honoured, "", nil},
		{"overhead", partly, partly, "it is added to what the pod requests", nil},
		{"topologySpreadConstraints", honoured, honoured, "", nil},
		{"setHostnameAsFQDN", ignored, ignored, "pods have no names in DNS", []string{"false"}},
		{"os", honoured, honoured, "", nil},
		{"hostUsers", ignored, ignored, "containers are in the machine's user namespace", []string{"true"}},
		{"schedulingGates", honoured, honoured, "", nil},
		{"resourceClaims", ignored, ignored, "pods with claims are not scheduled", nil},
		{"resources", partly, partly, "what the pod as a whole requests is accounted; its limits are not enforced", nil},
		{"hostnameOverride", ignored, ignored, "the system's own name stays", nil},
		{"schedulingGroup", ignored, ignored, "pods are scheduled one by one", nil},
	},
	"PodSecurityContext": append(identityRows(),
		fieldRow{"supplementalGroups", ignored, ignored, "containers have no further groups", nil},
		fieldRow{"supplementalGroupsPolicy", ignored, ignored, "containers have no further groups", nil},
		fieldRow{"fsGroup", ignored, ignored, "the files of volumes can be read by everybody", nil},
		fieldRow{"fsGroupChangePolicy", ignored, ignored, "the owners of volumes are not changed", nil},
		fieldRow{"sysctls", ignored, ignored, "containers share the machine's kernel settings", nil},
		fieldRow{"seLinuxChangePolicy", ignored, ignored, "containers have the daemon's SELinux context", nil},
	),
	"SecurityContext": append(identityRows(),
		fieldRow{"capabilities", ignored, ignored, "containers have the capabilities of the daemon, or of the user they run as", nil},
		fieldRow{"privileged", ignored, ignored, "containers have the privileges of the daemon, or of the user they run as", []string{"false"}},
		fieldRow{"readOnlyRootFilesystem", ignored, ignored, "containers see the machine's file system, and may write to it", []string{"false"}},
		fieldRow{"allowPrivilegeEscalation", ignored, ignored, "containers may gain privileges", []string{"true"}},
		fieldRow{"procMount", ignored, ignored, "containers see the machine's /proc", []string{"Default"}},
	),
	"Container": {
		{"name", honoured, honoured, "", nil},
		{"image", partly, ignored, "built-in images, those of the config's images map, and the host's programs; on simulated nodes any name will do", nil},
		{"command", honoured, ignored, "", nil},
		{"args", honoured, ignored, "", nil},
		{"workingDir", honoured, ignored, "", nil},
		{"ports", honoured, honoured, "", nil},
		{"envFrom", honoured, ignored, "", nil},
		{"env", honoured, ignored, "", nil},
		{"resources", honoured, honoured, "", nil},
		{"resizePolicy", ignored, ignored, "containers are not resized while they run", []string{"[]"}},
		{"restartPolicy", honoured, honoured, "", nil},
		{"restartPolicyRules", partly, partly, "Restart is done; RestartAllContainers restarts the one container", nil},
		{"volumeMounts", honoured, ignored, "", nil},
		{"volumeDevices", ignored, ignored, "there are no block volumes", nil},
		{"livenessProbe", honoured, ignored, "simulated containers are always well", nil},
		{"readinessProbe", honoured, ignored, "simulated containers are ready at once", nil},
		{"startupProbe", honoured, ignored, "simulated containers are started at once", nil},
		{"lifecycle", honoured, ignored, "", nil},
		{"terminationMessagePath", partly, ignored, "the file is below $MINIKCTL_ROOT", nil},
		{"terminationMessagePolicy", honoured, ignored, "", nil},
		{"imagePullPolicy", partly, ignored, "Never and the others differ only in what an unknown image is called: nothing is pulled", nil},
		{"securityContext", honoured, ignored, "", nil},
		{"stdin", honoured, ignored, "", nil},
		{"stdinOnce", honoured, ignored, "", nil},
		{"tty", honoured, ignored, "", nil},
	},
	"ContainerPort": {
		{"name", honoured, honoured, "", nil},
		{"hostPort", partly, partly, "it keeps two pods from one node; nothing listens there", []string{"0"}},
		{"containerPort", honoured, honoured, "", nil},
		{"protocol", honoured, honoured, "", nil},
		{"hostIP", ignored, ignored, "nothing listens there", nil},
	},
	"EnvVarSource": {
		{"fieldRef", honoured, ignored, "", nil},
		{"resourceFieldRef", honoured, ignored, "", nil},
		{"configMapKeyRef", honoured, ignored, "", nil},
		{"secretKeyRef", honoured, ignored, "", nil},
		{"fileKeyRef", ignored, ignored, "a container that needs it does not start", nil},
	},
	"ResourceRequirements": {
		{"limits", partly, partly, "memory is watched, and a container above its limit killed; other limits are only accounted", nil},
		{"requests", honoured, honoured, "", nil},
		{"claims", ignored, ignored, "pods with claims are not scheduled", nil},
	},
	"VolumeMount": {
		{"name", honoured, ignored, "", nil},
		{"readOnly", partly, ignored, "volumes can be written; the pod gets an Event", nil},
		{"recursiveReadOnly", ignored, ignored, "volumes can be written", []string{"Disabled"}},
		{"mountPath", partly, ignored, "volumes are below $MINIKCTL_ROOT, at the same path", nil},
		{"subPath", honoured, ignored, "", nil},
		{"mountPropagation", ignored, ignored, "nothing is mounted", []string{"None"}},
		{"subPathExpr", honoured, ignored, "", nil},
	},
	"Probe": {
		{"initialDelaySeconds", honoured, ignored, "", nil},
		{"timeoutSeconds", honoured, ignored, "", nil},
		{"periodSeconds", honoured, ignored, "", nil},
		{"successThreshold", honoured, ignored, "", nil},
		{"failureThreshold", honoured, ignored, "", nil},
		{"terminationGracePeriodSeconds", honoured, ignored, "", nil},
	},
	"ProbeHandler": {
		{"exec", honoured, ignored, "", nil},
		{"httpGet", honoured, ignored, "", nil},
		{"tcpSocket", honoured, ignored, "", nil},
		{"grpc", honoured, ignored, "", nil},
	},
	"Lifecycle": {
		{"postStart", honoured, ignored, "", nil},
		{"preStop", honoured, ignored, "", nil},
		{"stopSignal", ignored, ignored, "containers are stopped by SIGTERM", []string{"SIGTERM"}},
	},
	"LifecycleHandler": {
		{"exec", honoured, ignored, "", nil},
		{"httpGet", honoured, ignored, "", nil},
		{"tcpSocket", ignored, ignored, "it has no meaning in Kubernetes either", nil},
		{"sleep", honoured, ignored, "", nil},
	},
	"VolumeSource": append([]fieldRow{
		{"hostPath", honoured, ignored, "", nil},
		{"emptyDir", honoured, ignored, "", nil},
		{"secret", honoured, ignored, "", nil},
		{"downwardAPI", honoured, ignored, "", nil},
		{"configMap", honoured, ignored, "", nil},
		{"projected", honoured, ignored, "", nil},
	}, missing("a pod with such a volume does not start",
		"gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "persistentVolumeClaim", "rbd",
		"flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
		"photonPersistentDisk", "portworxVolume", "scaleIO", "storageos", "csi", "ephemeral", "image")...),
	"EmptyDirVolumeSource": {
		{"medium", ignored, ignored, "it is a folder on disk", nil},
		{"sizeLimit", ignored, ignored, "the folder may grow", nil},
	},
	"VolumeProjection": append([]fieldRow{
		{"secret", honoured, ignored, "", nil},
		{"downwardAPI", honoured, ignored, "", nil},
		{"configMap", honoured, ignored, "", nil},
		{"serviceAccountToken", honoured, ignored, "", nil},
	}, missing("a pod with such a volume does not start", "clusterTrustBundle", "podCertificate")...),
}

// identityRows are the fields that the security contexts of a pod and of a container share.
func identityRows() []fieldRow {
	const asRoot = "only when the daemon runs as root; volumes are in the daemon's private folder, which other users cannot enter"
	return []fieldRow{
		{"seLinuxOptions", ignored, ignored, "containers have the daemon's SELinux context", nil},
		{"windowsOptions", ignored, ignored, "there are no Windows nodes", nil},
		{"runAsUser", partly, ignored, asRoot, nil},
		{"runAsGroup", partly, ignored, asRoot, nil},
		{"runAsNonRoot", honoured, ignored, "", nil},
		{"seccompProfile", ignored, ignored, "system calls are not filtered", []string{"{Unconfined <nil>}"}},
		{"appArmorProfile", ignored, ignored, "AppArmor is not used", []string{"{Unconfined <nil>}"}},
	}
}

func missing(note string, fields ...string) []fieldRow {
	out := make([]fieldRow, 0, len(fields))
	for _, f := range fields {
		out = append(out, fieldRow{f, ignored, ignored, note, nil})
	}
	return out
}

// rowOf finds the row of a type's field.
func rowOf(typ reflect.Type, name string) (fieldRow, bool) {
	for _, r := range fieldRows[typ.Name()] {
		if r.field == name {
			return r, true
		}
	}
	return fieldRow{}, false
}

// FieldWarnings returns a sentence for each thing that a pod asks for and a node of that tier does not do. There are none
// about simulated nodes, on which no container is real.
func FieldWarnings(spec *corev1.PodSpec, t Tier) []string {
	if t.Simulated {
		return nil
	}
	var out []string
	warnings(reflect.ValueOf(spec).Elem(), "spec", t, &out)
	return out
}

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
	row, ok := rowOf(v.Type(), name)
	if ok && row.in(t) == ignored {
		if asks(value, row.usual) {
			*out = append(*out, fmt.Sprintf("%s.%s: not done on nodes of the %s runtime: %s", path, name, t.Name, row.note))
		}
		return
	}
	warnings(value, path+"."+name, t, out)
}

// asks reports whether a field is set to something that asks for anything.
func asks(v reflect.Value, usual []string) bool {
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

// FieldsPage returns the documentation of what becomes of a pod's fields.
func FieldsPage() string {
	var b strings.Builder
	b.WriteString("<!-- Made from pkg/kubelet/fields.go by go generate. Do not edit. -->\n\n# What becomes of a pod's fields\n\n" +
		"A node does what its runtime can do. `yes` is done as in Kubernetes, `partly` with the difference that the note says, `no` is\n" +
		"accepted and has no effect: a request that sets such a field is answered with a `Warning`, and the pod gets an Event.\n" +
		"Nothing of a container on a simulated node (`sim`) is real, so there are no warnings about it. Fields that are not listed\n" +
		"share the row of the field that they are below.\n")
	for _, section := range []struct{ title, typ string }{
		{"spec", "PodSpec"}, {"spec.securityContext", "PodSecurityContext"},
		{"spec.containers[], spec.initContainers[]", "Container"}, {"….securityContext", "SecurityContext"},
		{"….ports[]", "ContainerPort"}, {"….env[].valueFrom", "EnvVarSource"}, {"….resources", "ResourceRequirements"},
		{"….volumeMounts[]", "VolumeMount"}, {"….livenessProbe, ….readinessProbe, ….startupProbe", "Probe"},
		{"… of a probe", "ProbeHandler"}, {"….lifecycle", "Lifecycle"}, {"….lifecycle.postStart, ….lifecycle.preStop", "LifecycleHandler"},
		{"spec.volumes[]", "VolumeSource"}, {"spec.volumes[].emptyDir", "EmptyDirVolumeSource"},
		{"spec.volumes[].projected.sources[]", "VolumeProjection"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| field | process | sim | note |\n|---|---|---|---|\n", section.title)
		for _, r := range fieldRows[section.typ] {
			fmt.Fprintf(&b, "| `%s` | %v | %v | %s |\n", r.field, r.process, r.sim, r.note)
		}
	}
	return b.String()
}
