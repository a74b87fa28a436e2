package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// read parses and defaults a pod. It adds a container if there is none.
func read(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	p.Name, p.Namespace = "p", "default"
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "nginx"}}
	}
	defaultPod(p)
	return p
}

func TestValidatePod(t *testing.T) {
	tests := []struct {
		name, pod string
		want      []string
	}{
		{"plain", `spec: {}`, nil},
		{"sidecar with probe", `spec: {initContainers: [{name: s, image: i, restartPolicy: Always, startupProbe: {tcpSocket: {port: 80}}}]}`, nil},
		{"init container with probe", `spec: {initContainers: [{name: s, image: i, startupProbe: {tcpSocket: {port: 80}}}]}`,
			[]string{"spec.initContainers[0].startupProbe: Forbidden: may not be set for init containers without restartPolicy=Always"}},
		{"same name", `spec: {initContainers: [{name: c, image: i}]}`, []string{`spec.initContainers[0].name: Duplicate value: "c"`}},
		{"grpc port", `spec: {containers: [{name: c, image: i, livenessProbe: {grpc: {port: 0}}}]}`,
			[]string{"spec.containers[0].livenessProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		{"sleep beyond the grace period", `spec: {terminationGracePeriodSeconds: 5, containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 6}}}}]}`,
			[]string{"spec.containers[0].lifecycle.preStop.sleep: Invalid value: 6: must be non-negative and less than terminationGracePeriodSeconds (5)"}},
		{"stop signal, which is left aside", `spec: {containers: [{name: c, image: i, lifecycle: {stopSignal: SIGUSR1}}]}`, nil},
		{"host port twice", `spec: {containers: [{name: c, image: i, ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}]}]}`,
			[]string{`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"`}},
		{"host network", `spec: {hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 81}]}]}`,
			[]string{"spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"}},
		{"huge pages alone", `spec: {containers: [{name: c, image: i, resources: {limits: {hugepages-2Mi: 3Mi}}}]}`, []string{
			`spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
			`spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
			"spec.containers[0].resources: Forbidden: HugePages require cpu or memory"}},
		{"device without a limit", `spec: {containers: [{name: c, image: i, resources: {requests: {example.com/gpu: "1"}}}]}`,
			[]string{"spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"}},
		{"claim that the pod has not", `spec: {containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]}`,
			[]string{`spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims which is empty`}},
		{"pod level below containers", `spec: {resources: {requests: {cpu: "1"}}, containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}`,
			[]string{`spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2`}},
		{"no DNS config", `spec: {dnsPolicy: None}`, []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		{"gates and a node", `spec: {nodeName: n, schedulingGates: [{name: a}, {name: a}]}`, []string{
			`spec.schedulingGates[1]: Duplicate value: "a"`,
			"spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"}},
		{"user namespace of its own", `spec: {hostUsers: false, hostPID: true}`, []string{"spec.HostPID: Forbidden: when `hostUsers` is false"}},
		{"sysctl of the host", `spec: {hostNetwork: true, securityContext: {sysctls: [{name: net.ipv4.ip_forward, value: "1"}]}}`,
			[]string{`spec.securityContext.sysctls[0].name: Invalid value: "net.ipv4.ip_forward": may not be specified when 'hostNetwork' is true`}},
		{"two paths at once", `spec: {volumes: [{name: v, projected: {sources: [{secret: {name: a, items: [{key: k, path: x}]}}, {configMap: {name: b, items: [{key: k, path: x}]}}]}}]}`,
			[]string{`spec.volumes[0].projected: Invalid value: "b": conflicting duplicate paths`}},
		{"path upwards", `spec: {volumes: [{name: v, configMap: {name: a, items: [{key: k, path: a/../b}]}}]}`,
			[]string{`spec.volumes[0].configMap.items[0].path: Invalid value: "a/../b": must not contain '..'`}},
		{"ephemeral on create", `spec: {ephemeralContainers: [{name: e, image: i}]}`,
			[]string{"spec.ephemeralContainers: Forbidden: cannot be set on create"}},
		{"deletion cost", `metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: "+1"}}`,
			[]string{`metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer`}},
		{"label keys", `spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, matchLabelKeys: [a]}]}}}`,
			[]string{"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"}},
		{"Linux options on Windows", `spec: {os: {name: windows}, securityContext: {runAsUser: 1}}`,
			[]string{"spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := read(t, tt.pod)
			preparePod(p, nil)
			wantErrors(t, validatePod(p, nil).ToAggregate(), tt.want)
		})
	}
}

func wantErrors(t *testing.T, err error, want []string) {
	t.Helper()
	got := ""
	if err != nil {
		got = strings.TrimSuffix(strings.TrimPrefix(err.Error(), "["), "]")
	}
	if text := strings.Join(want, ", "); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
}

func TestValidatePodUpdate(t *testing.T) {
	const changes = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
		"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
	tests := []struct {
		name, old, now string
		want           string // its beginning
		generation     int64
	}{
		{"nothing", `spec: {}`, `spec: {}`, "", 3},
		{"labels", `spec: {}`, `metadata: {labels: {a: b}}`, "", 3},
		{"image", `spec: {}`, `spec: {containers: [{name: c, image: "nginx:2", imagePullPolicy: Always}]}`, "", 4},
		{"one more container", `spec: {}`, `spec: {containers: [{name: c, image: nginx}, {name: d, image: nginx}]}`,
			"spec.containers: Forbidden: pod updates may not add or remove containers", 4},
		{"node", `spec: {}`, `spec: {nodeName: n}`, changes, 4},
		{"first deadline", `spec: {}`, `spec: {activeDeadlineSeconds: 5}`, "", 4},
		{"later deadline", `spec: {activeDeadlineSeconds: 5}`, `spec: {activeDeadlineSeconds: 6}`,
			"spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value", 4},
		{"no deadline any more", `spec: {activeDeadlineSeconds: 5}`, `spec: {}`,
			"spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value", 4},
		{"toleration more", `spec: {}`, `spec: {tolerations: [{operator: Exists}]}`, "", 4},
		{"toleration less", `spec: {tolerations: [{operator: Exists}]}`, `spec: {}`,
			"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds", 4},
		{"gate less", `spec: {schedulingGates: [{name: a}, {name: b}]}`, `spec: {schedulingGates: [{name: b}]}`, "", 4},
		{"gate more", `spec: {schedulingGates: [{name: a}]}`, `spec: {schedulingGates: [{name: a}, {name: b}]}`,
			"spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'", 4},
		{"gated, narrower", `spec: {schedulingGates: [{name: a}], nodeSelector: {x: y}}`,
			`spec: {schedulingGates: [{name: a}], nodeSelector: {x: y, z: z}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}}}`, "", 4},
		{"gated, wider", `spec: {schedulingGates: [{name: a}], nodeSelector: {x: y}}`, `spec: {schedulingGates: [{name: a}]}`,
			"spec.nodeSelector: Invalid value: null: only additions to spec.nodeSelector are allowed (no mutations or deletions)", 4},
		{"not gated, narrower", `spec: {}`, `spec: {nodeSelector: {x: y}}`, changes, 4},
		{"same quantity", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}`,
			`spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1000m}}}]}`, "", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, now := read(t, tt.old), read(t, tt.now)
			old.ResourceVersion, now.ResourceVersion = "1", "1"
			old.Generation = 3
			preparePod(now, old)
			if now.Generation != tt.generation {
				t.Errorf("got generation %d, want %d", now.Generation, tt.generation)
			}
			err := validatePod(now, old).ToAggregate()
			switch {
			case err == nil && tt.want != "":
				t.Errorf("got no error, want %s", tt.want)
			case err != nil && (tt.want == "" || !strings.HasPrefix(err.Error(), tt.want)):
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

func TestPodGrace(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	tests := []struct {
		name      string
		pod       string
		requested *int64
		want      int64
	}{
		{"on no node", `spec: {}`, seconds(9), 0},
		{"its own", `spec: {nodeName: n, terminationGracePeriodSeconds: 7}`, nil, 7},
		{"requested", `spec: {nodeName: n}`, seconds(9), 9},
		{"zero requested", `spec: {nodeName: n}`, seconds(0), 0},
		{"ended", "spec: {nodeName: n}\nstatus: {phase: Succeeded}", nil, 0},
	}
	for _, tt := range tests {
		if got := podGrace(read(t, tt.pod), tt.requested); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPrepareStatusKeepsObservedGenerations(t *testing.T) {
	old := read(t, "status: {observedGeneration: 4, qosClass: Burstable, conditions: [{type: Ready, observedGeneration: 3}, {type: Ready, observedGeneration: 2}]}")
	now := read(t, "status: {conditions: [{type: Ready}, {type: Ready}, {type: Initialized}]}")
	preparePodStatus(now, old)
	c := now.Status.Conditions
	if now.Status.ObservedGeneration != 4 || c[0].ObservedGeneration != 3 || c[1].ObservedGeneration != 2 || c[2].ObservedGeneration != 0 || now.Status.QOSClass != "Burstable" {
		t.Errorf("got %+v", now.Status)
	}
}

func TestStatusUpdateRules(t *testing.T) {
	const ended = `
spec: {restartPolicy: Never}
status: {containerStatuses: [{name: c, state: {terminated: {exitCode: 0}}}]}`
	old := read(t, ended)
	now := read(t, `
spec: {restartPolicy: Never}
status: {containerStatuses: [{name: c, state: {running: {}}}], podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.1}]}`)
	old.ResourceVersion, now.ResourceVersion = "1", "1"
	wantErrors(t, validatePodStatus(now, old).ToAggregate(), []string{
		"status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
		`status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.1"}]: may specify no more than one IP for each IP family`,
	})
}

func TestResize(t *testing.T) {
	const one = `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 1Mi}}}]}`
	tests := []struct {
		name, now string
		want      []string
	}{
		{"more CPU", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 200m, memory: 1Mi}}}]}`, nil},
		{"other image, taken back", `spec: {containers: [{name: c, image: other, resources: {requests: {cpu: 200m, memory: 1Mi}}}]}`, nil},
		{"request removed", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 200m}}}]}`,
			[]string{"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"}},
		{"storage", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 1Mi, ephemeral-storage: 1Mi}}}]}`,
			[]string{"spec: Forbidden: only cpu and memory resources are mutable"}},
		{"other class", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 1Mi}, limits: {cpu: 100m, memory: 1Mi}}}]}`,
			[]string{`spec: Invalid value: "": Pod QOS Class may not change as a result of resizing`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, now := read(t, one), read(t, tt.now)
			old.ResourceVersion, now.ResourceVersion = "1", "1"
			prepareResize(now, old)
			wantErrors(t, validateResize(now, old).ToAggregate(), tt.want)
		})
	}
}

func TestResizeOfPodAsWhole(t *testing.T) {
	const pod = `spec: {resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}, containers: [{name: c, image: i}]}`
	tests := []struct {
		name, now string
		want      []string
	}{
		{"more CPU", `spec: {resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2}}, containers: [{name: c, image: i}]}`, nil},
		{"limit removed", `spec: {resources: {requests: {cpu: 1, memory: 1Gi}}, containers: [{name: c, image: i}]}`,
			[]string{"spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"}},
		{"all removed", `spec: {containers: [{name: c, image: i}]}`, []string{
			`spec: Invalid value: "": Pod QOS Class may not change as a result of resizing`,
			"spec.resources: Forbidden: pod-level resources cannot be removed",
		}},
		{"huge pages", `spec: {resources: {requests: {cpu: 1, memory: 1Gi, hugepages-2Mi: 2Mi}, limits: {cpu: 2, hugepages-2Mi: 2Mi}}, containers: [{name: c, image: i}]}`,
			[]string{"spec: Forbidden: only cpu and memory resources are mutable at pod-level"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, now := read(t, pod), read(t, tt.now)
			old.ResourceVersion, now.ResourceVersion = "1", "1"
			prepareResize(now, old)
			wantErrors(t, validateResize(now, old).ToAggregate(), tt.want)
		})
	}
}

func TestEphemeralContainers(t *testing.T) {
	old := read(t, `spec: {ephemeralContainers: [{name: e, image: busybox, targetContainerName: c}]}`)
	more := read(t, `spec: {nodeName: taken-back, ephemeralContainers: [{name: e, image: busybox, targetContainerName: c}, {name: f, image: busybox}]}`)
	none := read(t, `spec: {}`)
	other := read(t, `spec: {ephemeralContainers: [{name: e, image: "other:1", targetContainerName: c, ports: [{containerPort: 1}]}]}`)
	for _, p := range []*corev1.Pod{old, more, none, other} {
		p.ResourceVersion = "1"
	}
	for _, p := range []*corev1.Pod{more, none, other} {
		prepareEphemeral(p, old)
	}
	wantErrors(t, validateEphemeral(more, old).ToAggregate(), nil)
	if more.Spec.NodeName != "" || more.Generation != old.Generation+1 {
		t.Errorf("got node %q and generation %d", more.Spec.NodeName, more.Generation)
	}
	wantErrors(t, validateEphemeral(none, old).ToAggregate(), []string{"spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"})
	twice := read(t, `spec: {ephemeralContainers: [{name: e, image: "other:1", targetContainerName: c}, {name: e, image: busybox, targetContainerName: c}]}`)
	twice.Spec.Containers = old.Spec.Containers
	if err := validateEphemeral(twice, old).ToAggregate(); err == nil || strings.Contains(err.Error(), "may not be changed") {
		t.Errorf("twice: got %v, want only that the name is", err)
	}
	err := validateEphemeral(other, old).ToAggregate()
	if err == nil || !strings.Contains(err.Error(), "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container") ||
		!strings.Contains(err.Error(), `existing ephemeral containers "e" may not be changed`) {
		t.Errorf("got %v", err)
	}
}
