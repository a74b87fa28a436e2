package sim

import "github.com/minikctl/minikctl/pkg/kubelet"

// none is the support for all fields that only a real container could honour.
var none = kubelet.Field{Support: kubelet.Ignored}

// fields is the support for a pod's fields where it differs from the kubelet's own table. Simulated containers have no
// environment, volumes, probes, hooks or users.
var fields = kubelet.Fields{
	"PodSpec": {
		"volumes":                       none,
		"initContainers":                {Support: kubelet.Partly, Note: "simulated ones run until a rule of the pod ends them"},
		"terminationGracePeriodSeconds": {Support: kubelet.Partly, Note: "simulated containers end at once"},
		"dnsPolicy":                     none,
		"automountServiceAccountToken":  none,
		"hostNetwork":                   {},
		"hostPID":                       none,
		"hostIPC":                       none,
		"shareProcessNamespace":         none,
		"securityContext":               none,
		"hostname":                      none,
		"setHostnameAsFQDN":             none,
		"hostAliases":                   none,
		"dnsConfig":                     none,
		"enableServiceLinks":            none,
		"hostUsers":                     none,
		"hostnameOverride":              none,
		"resourceClaims":                {},
	},
	"Container": {
		"image":                    {Support: kubelet.Ignored, Note: "any name is accepted, unless a rule of the pod forbids it"},
		"command":                  none,
		"args":                     none,
		"workingDir":               none,
		"envFrom":                  none,
		"env":                      none,
		"volumeMounts":             none,
		"livenessProbe":            {Support: kubelet.Ignored, Note: "simulated containers are always healthy"},
		"readinessProbe":           {Support: kubelet.Ignored, Note: "simulated containers are ready at once, unless a rule of the pod says otherwise"},
		"startupProbe":             {Support: kubelet.Ignored, Note: "simulated containers are started at once"},
		"lifecycle":                none,
		"terminationMessagePath":   none,
		"terminationMessagePolicy": none,
		"imagePullPolicy":          none,
		"resizePolicy":             {Support: kubelet.Partly, Note: "a resize only changes what is accounted"},
		"securityContext":          none,
		"stdin":                    none,
		"stdinOnce":                none,
		"tty":                      none,
	},
	"ResourceRequirements": {
		"limits": {Support: kubelet.Partly, Note: "limits are only accounted"},
		"claims": {},
	},
	"PodSecurityContext":   {kubelet.Others: none},
	"SecurityContext":      {kubelet.Others: none},
	"EnvVarSource":         {kubelet.Others: none},
	"VolumeMount":          {kubelet.Others: none},
	"Probe":                {kubelet.Others: none},
	"ProbeHandler":         {kubelet.Others: none},
	"Lifecycle":            {kubelet.Others: none},
	"LifecycleHandler":     {kubelet.Others: none},
	"VolumeSource":         {kubelet.Others: none},
	"EmptyDirVolumeSource": {kubelet.Others: none},
	"VolumeProjection":     {kubelet.Others: none},
}
