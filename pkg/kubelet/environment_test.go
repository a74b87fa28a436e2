package kubelet

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "B": "x$(A)", "EMPTY": ""}
	get := func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
	for in, want := range map[string]string{
		"":                   "",
		"plain":              "plain",
		"$(A)":               "1",
		"a$(A)b$(A)c":        "a1b1c",
		"$(B)":               "x$(A)", // values are not expanded again
		"$(EMPTY)|":          "|",
		"$(NOPE)":            "$(NOPE)",
		"$$(A)":              "$(A)",
		"$$$(A)":             "$1",
		"$$$$(A)":            "$$(A)",
		"$A":                 "$A",
		"$":                  "$",
		"a$":                 "a$",
		"$(A":                "$(A",
		"$(A$(A)":            "$(A$(A)", // the name is "A$(A"
		"$()":                "$()",
		"${A}":               "${A}",
		"$(MINIKCTL_ROOT)/x": "$(MINIKCTL_ROOT)/x",
	} {
		if got := expand(in, get); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A)$$(B)$")
	f.Fuzz(func(t *testing.T, s string) {
		none := func(string) (string, bool) { return "", false }
		if !strings.Contains(s, "$$") {
			if got := expand(s, none); got != s {
				t.Errorf("%q without variables becomes %q", s, got)
			}
		}
	})
}

func TestPodField(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"b": "2", "a": "1"},
			Annotations: map[string]string{"k/x": "line\nbreak"},
		},
		Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa"},
	}
	at := addresses{pod: "127.1.2.3", host: "127.0.0.1"}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.uid": "u", "spec.nodeName": "n",
		"spec.serviceAccountName": "sa", "status.podIP": "127.1.2.3", "status.podIPs": "127.1.2.3", "status.hostIP": "127.0.0.1",
		"metadata.labels['b']": "2", "metadata.labels['none']": "", "metadata.annotations['k/x']": "line\nbreak",
		"metadata.labels": "a=\"1\"\nb=\"2\"", "metadata.annotations": `k/x="line\nbreak"`,
	} {
		if got, err := podField(pod, path, at); err != nil || got != want {
			t.Errorf("%s: got %q and %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"spec.restartPolicy": "unsupported fieldPath: spec.restartPolicy",
		"metadata.name['x']": `fieldPath "metadata.name['x']" does not support subscript`,
	} {
		if _, err := podField(pod, path, at); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestResourceField(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("100Mi")},
		Requests: corev1.ResourceList{"cpu": resource.MustParse("250m")},
	}}, {Name: "none"}}}}
	node := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	for _, test := range []struct{ container, resource, divisor, want string }{
		{"c", "limits.cpu", "", "2"},
		{"c", "limits.cpu", "1m", "1500"},
		{"c", "limits.memory", "1Mi", "100"},
		{"c", "limits.memory", "", "104857600"},
		{"c", "requests.cpu", "", "1"},
		{"c", "requests.memory", "", "0"},
		{"none", "limits.cpu", "", "4"},
		{"none", "limits.memory", "1Gi", "8"},
		{"none", "requests.cpu", "1m", "0"},
	} {
		ref := &corev1.ResourceFieldSelector{ContainerName: test.container, Resource: test.resource}
		if test.divisor != "" {
			ref.Divisor = resource.MustParse(test.divisor)
		}
		if got, err := resourceField(pod, nil, ref, node); err != nil || got != test.want {
			t.Errorf("%s of %s by %q: got %q and %v, want %s", test.resource, test.container, test.divisor, got, err, test.want)
		}
	}
}

func TestServiceVariables(t *testing.T) {
	got := map[string]string{}
	serviceVariables(got, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "redis-master"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.11", Ports: []corev1.ServicePort{
			{Port: 6379}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolUDP},
		}},
	})
	serviceVariables(got, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}})
	want := map[string]string{
		"REDIS_MASTER_SERVICE_HOST": "10.0.0.11", "REDIS_MASTER_SERVICE_PORT": "6379", "REDIS_MASTER_SERVICE_PORT_DNS_TCP": "53",
		"REDIS_MASTER_PORT": "tcp://10.0.0.11:6379", "REDIS_MASTER_PORT_6379_TCP": "tcp://10.0.0.11:6379",
		"REDIS_MASTER_PORT_6379_TCP_PROTO": "tcp", "REDIS_MASTER_PORT_6379_TCP_PORT": "6379", "REDIS_MASTER_PORT_6379_TCP_ADDR": "10.0.0.11",
		"REDIS_MASTER_PORT_53_UDP": "udp://10.0.0.11:53", "REDIS_MASTER_PORT_53_UDP_PROTO": "udp",
		"REDIS_MASTER_PORT_53_UDP_PORT": "53", "REDIS_MASTER_PORT_53_UDP_ADDR": "10.0.0.11",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEnvironmentOfAContainer(t *testing.T) {
	r := newRig(t)
	in := func(resource string) client.Target {
		switch resource {
		case "cm":
			return client.Target{Resource: client.ConfigMaps, Namespace: "default"}
		}
		return client.Target{Resource: client.Secrets, Namespace: "default"}
	}
	r.create(in("cm"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"A": "cm-a", "B": "cm-b"}})
	r.create(in("secret"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"KEY": []byte("hush")}})
	name := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	pod := r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Command: []string{"prog", "$(A)"}, Args: []string{"--who=$(WHO)", "$$(A)"}, WorkingDir: "/srv",
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("cm")}},
			{Prefix: "S_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("s")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("none"), Optional: new(true)}},
		},
		Env: []corev1.EnvVar{
			{Name: "B", Value: "own"},
			{Name: "WHO", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}},
			{Name: "ALL", Value: "$(A)-$(S_KEY)-$(WHO)-$(LATER)"},
			{Name: "LATER", Value: "x"},
		},
	}}})
	r.waitSummary("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	if want := []string{"prog", "cm-a", "--who=p", "$(A)"}; !slices.Equal(spec.Command, want) || spec.Dir != "/srv" {
		t.Errorf("got command %q in %q, want %q", spec.Command, spec.Dir, want)
	}
	for _, want := range []string{"A=cm-a", "B=own", "S_KEY=hush", "WHO=p", "IP=127.9.0.2", "ALL=cm-a-hush-p-$(LATER)", "LATER=x", "HOSTNAME=p"} {
		if !slices.Contains(spec.Env, want) {
			t.Errorf("%s is missing in %q", want, spec.Env)
		}
	}
}
