package process

import "github.com/minikctl/minikctl/pkg/kubelet"

const (
	asRoot   = "as an ordinary user only with a mount namespace, in a user namespace of the container: the files are those of the daemon's user. Without mount namespaces volumes are in the daemon's private directory, which other users cannot enter"
	groups   = "only when the daemon runs as root"
	profiles = "RuntimeDefault refuses the calls that the default profile of containerd refuses, and 32-bit programs; Localhost is treated as RuntimeDefault, since there are no profiles to load"
	seLinux  = "containers have the daemon's SELinux context"
	resolver = "without mount namespaces programs that use the C library of GNU or musl, or Go's resolver, find the cluster's names, others don't"
	hostname = "without mount namespaces only the variable HOSTNAME has it"
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
		"hostname":              {Support: kubelet.Partly, Note: hostname},
		"setHostnameAsFQDN":     {Support: kubelet.Partly, Note: hostname},
		"hostAliases":           {Support: kubelet.Partly, Note: "without mount namespaces containers see the machine's hosts file"},
		"dnsConfig":             {Support: kubelet.Partly, Note: resolver},
		"hostUsers":             {Support: kubelet.Ignored, Note: "containers are in the machine's user namespace", NoWarning: []string{"true"}},
		"hostnameOverride":      {Support: kubelet.Partly, Note: hostname},
	},
	"PodSecurityContext": {
		"seLinuxOptions":           {Support: kubelet.Ignored, Note: seLinux},
		"runAsUser":                {Support: kubelet.Partly, Note: asRoot},
		"runAsGroup":               {Support: kubelet.Partly, Note: asRoot},
		"seccompProfile":           {Support: kubelet.Partly, Note: profiles},
		"appArmorProfile":          {Support: kubelet.Ignored, Note: "AppArmor is not used", NoWarning: []string{confined}},
		"supplementalGroups":       {Support: kubelet.Partly, Note: groups, NeedsRoot: true},
		"supplementalGroupsPolicy": {Support: kubelet.Partly, Note: groups + "; Merge adds the groups of the machine's group file, and container statuses do not show the user", NeedsRoot: true, NoWarning: []string{"Merge"}},
		"fsGroup":                  {Support: kubelet.Partly, Note: groups, NeedsRoot: true},
		"fsGroupChangePolicy":      {Support: kubelet.Partly, Note: groups, NeedsRoot: true},
		"sysctls":                  {Support: kubelet.Ignored, Note: "containers share the machine's kernel settings"},
		"seLinuxChangePolicy":      {Support: kubelet.Ignored, Note: seLinux},
	},
	"SecurityContext": {
		"seLinuxOptions":           {Support: kubelet.Ignored, Note: seLinux},
		"runAsUser":                {Support: kubelet.Partly, Note: asRoot},
		"runAsGroup":               {Support: kubelet.Partly, Note: asRoot},
		"seccompProfile":           {Support: kubelet.Partly, Note: profiles},
		"appArmorProfile":          {Support: kubelet.Ignored, Note: "AppArmor is not used", NoWarning: []string{confined}},
		"capabilities":             {Support: kubelet.Partly, Note: "a daemon can only give what it has, an ordinary user's none; a warning names the others"},
		"privileged":               {Support: kubelet.Partly, Note: "a privileged container has the privileges of the daemon; devices are the machine's in any case"},
		"readOnlyRootFilesystem":   {Support: kubelet.Partly, Note: "needs a mount namespace; without one there is a warning. /dev and /proc stay writable"},
		"allowPrivilegeEscalation": {Support: kubelet.Partly, Note: "always treated as false where the daemon has no CAP_SYS_ADMIN, and always as true on other systems than Linux"},
		"procMount":                {Support: kubelet.Partly, Note: "containers see the machine's /proc; Default hides and protects parts of it and of /sys, in a mount namespace", NoWarning: []string{"Default"}},
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
		"limits": {Support: kubelet.Partly, Note: "a container above its memory limit is killed, by the kernel where the daemon can create cgroups, and otherwise within a second or so; a CPU limit is enforced where the daemon can create cgroups; other limits are only accounted"},
	},
	"VolumeMount": {
		"readOnly":          {Support: kubelet.Partly, Note: "without mount namespaces containers can write to the volume, with a warning"},
		"recursiveReadOnly": {Support: kubelet.Partly, Note: "as readOnly; needs Linux 5.12"},
		"mountPath":         {Support: kubelet.Partly, Note: "without mount namespaces the volume is at the same path below $MINIKCTL_ROOT. A container whose mount path exists on the machine does not start then, unless its command, arguments or environment name that variable or the config has kubelet.mountPaths: besteffort"},
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
