package podspec

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestInternalFields looks whether a field is new in the types.
func TestInternalFields(t *testing.T) {
	elsewhere := append([]string{"DeprecatedServiceAccount"}, hostFields...)
	for i := range reflect.TypeFor[corev1.PodSpec]().NumField() {
		name := reflect.TypeFor[corev1.PodSpec]().Field(i).Name
		if !slices.Contains(internalSpec, name) && !slices.Contains(elsewhere, name) {
			t.Errorf("the order of a pod's fields lacks %s", name)
		}
	}
	for i := range reflect.TypeFor[corev1.PodSecurityContext]().NumField() {
		if name := reflect.TypeFor[corev1.PodSecurityContext]().Field(i).Name; !slices.Contains(internalSecurity, name) {
			t.Errorf("the order of a security context's fields lacks %s", name)
		}
	}
}

func TestDiff(t *testing.T) {
	const pod = `
containers:
- name: c
  image: nginx
  ports: [{containerPort: 80}]
  volumeMounts: [{name: kube-api-access-x, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
serviceAccountName: default
enableServiceLinks: true
preemptionPolicy: PreemptLowerPriority
priority: 0
tolerations:
- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
- {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
volumes:
- name: kube-api-access-x
  projected:
    sources:
    - serviceAccountToken: {expirationSeconds: 3607, path: token}
    - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
    - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
`
	old := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(pod), old); err != nil {
		t.Fatal(err)
	}
	Default(old)
	now := old.DeepCopy()
	now.NodeName = "x"
	const want = `@@ -148,7 +148,7 @@
  "NodeSelector": null,
  "ServiceAccountName": "default",
  "AutomountServiceAccountToken": null,
- "NodeName": "",
+ "NodeName": "x",
  "SecurityContext": {
   "HostNetwork": false,
   "HostPID": false,
`
	if got := Diff(old, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
