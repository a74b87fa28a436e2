package allocate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

func parsed(t *testing.T, spec string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
		t.Fatal(err)
	}
	s.Name, s.Namespace = "s", "default"
	return s
}

// TestServices compares Services after allocation with YAML that they must contain, or with the end of the error.
func TestServices(t *testing.T) {
	const (
		plain = `{type: ClusterIP, clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{name: a, port: 80}]}`
		node  = `{type: NodePort, clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{name: a, port: 80, protocol: TCP, nodePort: 30001}, {name: b, port: 81, protocol: TCP, nodePort: 30002}]}`
		local = `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30003, clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ports: [{port: 80, nodePort: 30001}]}`
		named = `{type: ExternalName, externalName: a.b}`
	)
	tests := []struct {
		name, old, now string // old is empty for a new one
		want           []string
		err            string
	}{
		{"only the address", "", `{clusterIP: 10.96.0.7}`, []string{"- 10.96.0.7", "- IPv4", "SingleStack"}, ""},
		{"no address", "", `{clusterIP: abc}`, nil, `spec.clusterIPs[0]: Invalid value: "abc": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		{"an address of elsewhere", "", `{clusterIP: 1.2.3.4}`, nil, `failed to allocate IP 1.2.3.4: the provided network does not match the current range`},
		{"the range's own address", "", `{clusterIP: 10.96.0.0}`, nil, `failed to allocate IP 10.96.0.0: the provided network does not match the current range`},
		{"other families", "", `{clusterIP: "::1"}`, nil, `spec.clusterIPs[0]: Invalid value: ["::1"]: IPv6 is not configured on this cluster`},
		{"both families", "", `{ipFamilyPolicy: RequireDualStack}`, nil, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		{"headless without a selector", "", `{clusterIP: None}`, []string{"- IPv4\n- IPv6", "RequireDualStack"}, ""},
		{"shared node port", "", `{type: NodePort, ports: [{name: a, port: 80, protocol: TCP}, {name: b, port: 80, protocol: UDP, nodePort: 30009}]}`,
			[]string{"name: a\n  nodePort: 30009", "name: b\n  nodePort: 30009"}, ""},
		{"node port of two numbers", "", `{type: NodePort, ports: [{name: a, port: 80, protocol: TCP, nodePort: 30009}, {name: b, port: 81, protocol: UDP, nodePort: 30009}]}`,
			nil, `spec.ports[1].nodePort: Invalid value: 30009: provided port is already allocated`},

		{"left out", node, `{type: NodePort, ports: [{name: b, port: 88}, {name: a, port: 80}]}`,
			[]string{"clusterIP: 10.96.0.9", "name: b\n  nodePort: 30002", "name: a\n  nodePort: 30001", "SingleStack"}, ""},
		{"changed places", node, `{type: NodePort, ports: [{name: a, port: 80, nodePort: 30002}, {name: b, port: 81}]}`, []string{"name: a\n  nodePort: 30002"}, ""},
		{"node port twice", node, `{type: NodePort, ports: [{name: a, port: 80, protocol: TCP, nodePort: 30002}, {name: c, port: 81, protocol: TCP, nodePort: 30002}]}`,
			nil, `duplicate nodePort: {TCP 30002}`},
		{"other address, which validation refuses", plain, `{type: ClusterIP, clusterIP: 1.2.3.4, ports: [{name: a, port: 80}]}`, []string{"clusterIP: 1.2.3.4", "- 1.2.3.4"}, ""},
		{"other list only", plain, `{type: ClusterIP, clusterIP: 10.96.0.9, clusterIPs: [10.96.0.8]}`, nil, "spec.clusterIPs: Invalid value: [\"10.96.0.8\"]: first value must match `clusterIP`"},
		{"an address after all", named, `{type: ClusterIP, clusterIP: 10.96.0.7}`, []string{"- 10.96.0.7"}, ""},
		{"health port stays", local, `{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}`, []string{"healthCheckNodePort: 30003", "nodePort: 30001"}, ""},
		{"other health port, which validation refuses", local, `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 99, ports: [{port: 80}]}`,
			[]string{"healthCheckNodePort: 99"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hook, err := Services(Config{}, clock.NewSource(1))
			if err != nil {
				t.Fatal(err)
			}
			now := parsed(t, tt.now)
			var old objects.Object
			if tt.old != "" {
				old = parsed(t, tt.old)
				hook.Load([]objects.Object{old})
			}
			err = hook.Prepare(t.Context(), &stage.Transaction{}, now, old)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, tt.err) || (err != nil) != (tt.err != "") {
				t.Errorf("got %q, want %q", got, tt.err)
			}
			text, err := yaml.Marshal(now.Spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range tt.want {
				if !strings.Contains(string(text), part) {
					t.Errorf("no %q in\n%s", part, text)
				}
			}
		})
	}
}
