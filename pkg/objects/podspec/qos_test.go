package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestQOS(t *testing.T) {
	tests := []struct {
		name, spec string
		want       corev1.PodQOSClass
	}{
		{"nothing", `containers: [{name: c}]`, corev1.PodQOSBestEffort},
		{"zero", `containers: [{name: c, resources: {requests: {cpu: "0"}}}]`, corev1.PodQOSBestEffort},
		{"storage only", `containers: [{name: c, resources: {requests: {ephemeral-storage: 1Gi}}}]`, corev1.PodQOSBestEffort},
		{"request", `containers: [{name: c, resources: {requests: {cpu: 1m}}}]`, corev1.PodQOSBurstable},
		{"limits alone", `containers: [{name: c, resources: {limits: {cpu: 1m, memory: 1Mi}}}]`, corev1.PodQOSBurstable},
		{"as defaulted", `containers: [{name: c, resources: {limits: {cpu: "1", memory: 1Mi}, requests: {cpu: 1000m, memory: 1Mi}}}]`, corev1.PodQOSGuaranteed},
		{"one of two", `containers: [{name: c, resources: {limits: {cpu: "1", memory: 1Mi}, requests: {cpu: "1", memory: 1Mi}}}, {name: d}]`, corev1.PodQOSBurstable},
		{"init container without", "containers: [{name: c, resources: {limits: {cpu: \"1\", memory: 1Mi}, requests: {cpu: \"1\", memory: 1Mi}}}]\ninitContainers: [{name: i}]", corev1.PodQOSBurstable},
		{"the whole pod", "resources: {limits: {cpu: \"1\", memory: 1Mi}, requests: {cpu: \"1\", memory: 1Mi}}\ncontainers: [{name: c}]", corev1.PodQOSGuaranteed},
	}
	for _, tt := range tests {
		s := &corev1.PodSpec{}
		if err := yaml.UnmarshalStrict([]byte(tt.spec), s); err != nil {
			t.Fatal(err)
		}
		if got := QOS(s); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, spec, want string
	}{
		{"old label", `nodeSelector: {beta.kubernetes.io/os: linux}`, `spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`},
		{"old volume", `volumes: [{name: a}, {name: b, gitRepo: {repository: r}}]`, "spec.volumes[1].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"},
		{"hidden variable", `containers: [{name: c, env: [{name: A, value: a}, {name: A, value: b}]}]`, `spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`},
		{"variable used again", `containers: [{name: c, env: [{name: A, value: a}, {name: A, value: "$(A)b"}]}]`, ""},
		{"port twice", `containers: [{name: c, ports: [{name: a, containerPort: 1}, {name: b, containerPort: 1}]}]`, "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"},
		{"port of two protocols", `containers: [{name: c, ports: [{containerPort: 1, protocol: TCP}, {containerPort: 1, protocol: UDP}]}]`, ""},
		{"part of a byte", `containers: [{name: c, resources: {limits: {memory: 1500m}}}]`, `spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer`},
		{"spread over nothing", `topologySpreadConstraints: [{topologyKey: zone}]`, "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"},
		{"preferred value", `affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: ["-"]}]}}]}}`,
			`spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		{"near nothing", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}`,
			"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod"},
		{"far from nothing", `affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a}}]}}`,
			"spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod"},
		{"name of two ports", `containers: [{name: c, ports: [{name: a, containerPort: 1}]}, {name: d, ports: [{name: a, containerPort: 2}]}]`,
			`spec.containers[1].ports[0]: duplicate port name "a" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]`},
		{"name server", `dnsConfig: {nameservers: [1.2.3.4, "::ffff:1.2.3.4"]}`, `spec.dnsConfig.nameservers[1]: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"`},
		{"host alias", `hostAliases: [{ip: 1.2.3.04}]`, `spec.hostAliases[0].ip: non-standard IP address "1.2.3.04" is invalid: use "1.2.3.4"`},
		{"file twice", `volumes: [{name: v, configMap: {name: m, items: [{key: a, path: x}, {key: b, path: "y"}, {key: c, path: x/}]}}]`, `volume "v" (ConfigMap "m"): overlapping paths: "x" with "x"`},
		{"file below a file", `volumes: [{name: v, secret: {secretName: s, items: [{key: a, path: x/y}, {key: b, path: x}]}}]`, `volume "v" (Secret "s"): overlapping paths: "x" with "x/y"`},
		{"file beside a file", `volumes: [{name: v, downwardAPI: {items: [{path: xy}, {path: x}]}}]`, ""},
		{"files of two sources", `volumes: [{name: v, projected: {sources: [{secret: {name: s, items: [{key: a, path: token}]}}, {configMap: {name: m}}, {serviceAccountToken: {path: token}}]}}]`,
			`volume "v" (Projected): overlapping paths: "token" (ServiceAccountToken) with "token" (Secret "s")`},
		{"no source", `volumes: [{name: v, projected: {sources: [{}]}}]`, `volume "v" (Projected) has no sources provided`},
		{"part of a byte of a volume", `volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {resources: {limits: {storage: 1m}}}}}}]`,
			`spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.limits[storage]: fractional byte value "1m" is invalid, must be an integer`},
		{"secret twice", `imagePullSecrets: [{name: a}, {name: a}]`, `spec.imagePullSecrets[1].name: duplicate name "a"`},
	}
	for _, tt := range tests {
		s := &corev1.PodSpec{}
		if err := yaml.UnmarshalStrict([]byte(tt.spec), s); err != nil {
			t.Fatal(err)
		}
		got := ""
		if list := Warnings(s, nil, nil); len(list) > 0 {
			got = list[0]
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPodLevelDefaults(t *testing.T) {
	p := &corev1.Pod{}
	const spec = `
resources: {limits: {cpu: "4", memory: 1Gi}}
containers:
- {name: c, resources: {requests: {cpu: "1"}}}
- {name: d, resources: {requests: {cpu: "2"}}}
`
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	DefaultPodResources(p)
	r := p.Spec.Resources.Requests
	if r.Cpu().Value() != 3 || r.Memory().Value() != 1<<30 {
		t.Errorf("got requests %v, want those of the containers, else the limits", r)
	}
}

func TestMergeMatchLabelKeys(t *testing.T) {
	s := &corev1.PodSpec{}
	const spec = `
topologySpreadConstraints: [{topologyKey: zone, labelSelector: {matchLabels: {app: a}}, matchLabelKeys: [hash, none]}]
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}, mismatchLabelKeys: [hash]}]}}
`
	if err := yaml.UnmarshalStrict([]byte(spec), s); err != nil {
		t.Fatal(err)
	}
	MergeMatchLabelKeys(s, map[string]string{"hash": "1"})
	spread := s.TopologySpreadConstraints[0].LabelSelector.MatchExpressions
	anti := s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions
	if len(spread) != 1 || spread[0].Key != "hash" || spread[0].Operator != "In" || spread[0].Values[0] != "1" {
		t.Errorf("got %v", spread)
	}
	if len(anti) != 1 || anti[0].Operator != "NotIn" {
		t.Errorf("got %v", anti)
	}
}
