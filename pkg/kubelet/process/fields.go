package process

import "github.com/minikctl/minikctl/pkg/kubelet"

const (
	asRoot   = "only when the daemon runs as root; volumes are in the daemon's private folder, which other users cannot enter"
	seLinux  = "containers have the daemon's SELinux context"
	resolver = "without mount namespaces programs that use the C library of GNU or Go's resolver find the cluster's names, others don't"
	hostname = "the host name is the pod's"
	noGroups = "containers have no further groups"
	confined = "{Unconfined <nil>}"
)

// fields is the support for the fields of a pod that depend on the runtime.
var fields = kubelet.Fields{
	"PodSpec": {
		"dnsPolicy":             {Support: kubelet.Partly, Note: resolver},
		"hostNetwork":           {},
		"hostPID":               {Note: "containers see the machine's processes in any case"},
		"hostIPC":               {Note: "containers share the machine's IPC in any case"},
		"shareProcessNamespace": {Support: kubelet.Partly, Note: "containers see all of the machine's processes in any case"},
		"hostname":              {Support: kubelet.Partly, Note: "without mount namespaces only the variable HOSTNAME has it"},
		"hostAliases":           {Support: kubelet.Partly, Note: "without mount namespaces containers see the machine's hosts file"},
		"dnsConfig":             {Support: kubelet.Partly, Note: resolver},
		"hostUsers":             {Support: kubelet.Ignored, Note: "containers are in the machine's user namespace", NoWarning: []string{"true"}},
		"hostnameOverride":      {Support: kubelet.Ignored, Note: hostname},
	},
	"PodSecurityContext": {
		"seLinuxOptions":           {Support: kubelet.Ignored, Note: seLinux},
		"runAsUser":                {Support: kubelet.Partly, Note: asRoot},
		"runAsGroup":               {Support: kubelet.Partly, Note: asRoot},
		"seccompProfile":           {Support: kubelet.Ignored, Note: "system calls are not filtered", NoWarning: []string{confined}},
		"appArmorProfile":          {Support: kubelet.Ignored, Note: "AppArmor is not used", NoWarning: []string{confined}},
		"supplementalGroups":       {Support: kubelet.Ignored, Note: noGroups},
		"supplementalGroupsPolicy": {Support: kubelet.Ignored, Note: noGroups},
		"fsGroup":                  {Support: kubelet.Ignored, Note: "every user may read the files of volumes"},
		"fsGroupChangePolicy":      {Support: kubelet.Ignored, Note: "the owners of volumes are not changed"},
		"sysctls":                  {Support: kubelet.Ignored, Note: "containers share the machine's kernel settings"},
		"seLinuxChangePolicy":      {Support: kubelet.Ignored, Note: seLinux},
	},
	"SecurityContext": {
		"seLinuxOptions":           {Support: kubelet.Ignored, Note: seLinux},
		"runAsUser":                {Support: kubelet.Partly, Note: asRoot},
		"runAsGroup":               {Support: kubelet.Partly, Note: asRoot},
		"seccompProfile":           {Support: kubelet.Ignored, Note: "system calls are not filtered", NoWarning: []string{confined}},
		"appArmorProfile":          {Support: kubelet.Ignored, Note: "AppArmor is not used", NoWarning: []string{confined}},
		"capabilities":             {Support: kubelet.Ignored, Note: "containers have the capabilities of the daemon, or of the user they run as"},
		"privileged":               {Support: kubelet.Ignored, Note: "containers have the privileges of the daemon, or of the user they run as", NoWarning: []string{"false"}},
		"readOnlyRootFilesystem":   {Support: kubelet.Ignored, Note: "containers see the machine's file system, and may write to it", NoWarning: []string{"false"}},
		"allowPrivilegeEscalation": {Support: kubelet.Partly, Note: "on Linux the field is always treated as false; on other systems always as true"},
		"procMount":                {Support: kubelet.Ignored, Note: "containers see the machine's /proc", NoWarning: []string{"Default"}},
	},
	"Container": {
		"command":                {},
		"args":                   {},
		"workingDir":             {},
		"terminationMessagePath": {Support: kubelet.Partly, Note: "without mount namespaces the file is below $MINIKCTL_ROOT"},
		"stdin":                  {},
		"stdinOnce":              {},
		"tty":                    {},
	},
	"ResourceRequirements": {
		"limits": {Support: kubelet.Partly, Note: "a container above its memory limit is killed; other limits are only accounted"},
	},
	"VolumeMount": {
		"readOnly":          {Support: kubelet.Partly, Note: "without mount namespaces containers can write to the volume; the pod gets an Event"},
		"recursiveReadOnly": {Support: kubelet.Partly, Note: "as readOnly; needs Linux 5.12"},
		"mountPath":         {Support: kubelet.Partly, Note: "without mount namespaces the volume is at the same path below $MINIKCTL_ROOT"},
		"mountPropagation":  {Support: kubelet.Partly, Note: "what a container mounts never appears on the machine"},
	},
	"ProbeHandler": {
		"exec": {},
	},
	"Lifecycle": {
		"stopSignal": {Support: kubelet.Ignored, Note: "containers are stopped by SIGTERM", NoWarning: []string{"SIGTERM"}},
	},
	"LifecycleHandler": {
		"exec": {},
	},
}
