package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// service parses a service with allocated fields.
func service(t *testing.T, spec string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
		t.Fatal(err)
	}
	s.Name, s.Namespace, s.ResourceVersion = "s", "default", "1"
	defaultService(s)
	return s
}

func TestValidateService(t *testing.T) {
	tests := []struct {
		name, spec string
		want       []string
	}{
		{"plain", `{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}`, nil},
		{"headless balancer", `{type: LoadBalancer, clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}`,
			[]string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services`}},
		{"name without a name", `{type: ExternalName}`, []string{"spec.externalName: Required value"}},
		{"name with an address", `{type: ExternalName, externalName: a.b, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}`,
			[]string{"spec.clusterIPs: Forbidden: may not be set for ExternalName services"}},
		{"port twice", `{clusterIP: None, clusterIPs: [None], ports: [{name: a, port: 80}, {name: b, port: 80}]}`,
			[]string{`spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}`}},
		{"node port of a plain one", `{clusterIP: None, clusterIPs: [None], ports: [{port: 80, nodePort: 30000}]}`,
			[]string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		{"outer address", `{clusterIP: None, clusterIPs: [None], ports: [{port: 80}], externalIPs: [127.0.0.1, 0.0.0.0, x]}`, []string{
			`spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
			`spec.externalIPs[1]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`,
			`spec.externalIPs[2]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		{"affinity", `{clusterIP: None, clusterIPs: [None], ports: [{port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}`,
			[]string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400"}},
		{"families", `{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv6, IPv6], ports: [{port: 80}]}`, []string{
			`spec.ipFamilies[1]: Duplicate value: "IPv6"`,
			"spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
		{"two of one family", `{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 10.0.0.2], ports: [{port: 80}]}`,
			[]string{`spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each IP family`}},
		{"distribution", `{clusterIP: None, clusterIPs: [None], ports: [{port: 80}], trafficDistribution: Near}`,
			[]string{`spec.trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`}},
		{"class of a plain one", `{clusterIP: None, clusterIPs: [None], ports: [{port: 80}], loadBalancerClass: a/b}`,
			[]string{"spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
		{"ranges of a plain one", `{clusterIP: None, clusterIPs: [None], ports: [{port: 80}], loadBalancerSourceRanges: [" 10.0.0.0/8"]}`,
			[]string{"spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
		{"local without a health check", `{type: LoadBalancer, externalTrafficPolicy: Local, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}`,
			[]string{"spec.healthCheckNodePort: Required value"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantErrors(t, validateService(service(t, tt.spec), nil).ToAggregate(), tt.want)
		})
	}
}

func TestServiceUpdate(t *testing.T) {
	const one = `{type: NodePort, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{name: a, port: 80, nodePort: 30001}, {name: b, port: 81, nodePort: 30002}]}`
	tests := []struct {
		name, now string
		want      []string
		see       func(s *corev1.Service) bool
	}{
		{"allocated values left out", `{type: NodePort, ipFamilies: [IPv4], ports: [{name: b, port: 81}, {name: a, port: 88}]}`, nil, func(s *corev1.Service) bool {
			return s.Spec.ClusterIP == "10.0.0.1" && s.Spec.ClusterIPs[0] == "10.0.0.1" && s.Spec.Ports[0].NodePort == 30002 && s.Spec.Ports[1].NodePort == 30001
		}},
		{"other address", `{type: NodePort, clusterIP: 10.0.0.2, clusterIPs: [10.0.0.2], ipFamilies: [IPv4], ports: [{port: 80}]}`,
			[]string{`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`}, nil},
		{"only the first address", `{type: NodePort, clusterIP: 10.0.0.2, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ports: [{port: 80}]}`,
			[]string{`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`}, nil},
		{"plain again", `{type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], externalTrafficPolicy: Cluster, ports: [{name: a, port: 80, nodePort: 30001}, {name: b, port: 81, nodePort: 30002}]}`, nil,
			func(s *corev1.Service) bool {
				return s.Spec.Ports[0].NodePort == 0 && s.Spec.ExternalTrafficPolicy == ""
			}},
		{"a name now", `{type: ExternalName, externalName: a.b, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, externalTrafficPolicy: Cluster, ports: [{name: a, port: 80, nodePort: 30001}, {name: b, port: 81, nodePort: 30002}]}`, nil,
			func(s *corev1.Service) bool {
				return s.Spec.ClusterIP == "" && s.Spec.ClusterIPs == nil && s.Spec.IPFamilies == nil && s.Spec.IPFamilyPolicy == nil
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, now := service(t, one), service(t, tt.now)
			KeepAllocated(&now.Spec, &old.Spec)
			prepareService(now, old)
			wantErrors(t, validateService(now, old).ToAggregate(), tt.want)
			if tt.see != nil && !tt.see(now) {
				t.Errorf("got %+v", now.Spec)
			}
		})
	}
}

func TestServiceColumns(t *testing.T) {
	tests := []struct{ spec, want string }{
		{`{clusterIP: None, clusterIPs: [None]}`, "ClusterIP None <none> <none> <none>"},
		{`{type: LoadBalancer, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80, nodePort: 30000}], selector: {a: b}}`, "LoadBalancer 10.0.0.1 <pending> 80:30000/TCP a=b"},
		{`{type: ExternalName, externalName: a.b}`, "ExternalName <none> a.b <none> <none>"},
	}
	for _, tt := range tests {
		s := service(t, tt.spec)
		var cells []string
		for _, i := range []int{1, 2, 3, 4, 6} {
			cells = append(cells, serviceColumns[i].Cell(s, s.CreationTimestamp.Time).(string))
		}
		if got := strings.Join(cells, " "); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
