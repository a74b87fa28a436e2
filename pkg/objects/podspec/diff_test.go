package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

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

func TestDiffOfLargeValues(t *testing.T) {
	old := &corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{strings.Repeat("a", maxDiff)}}}}
	now := old.DeepCopy()
	now.NodeName = "x"
	if got := Diff(old, now); got != "the values are too large to show their difference" {
		t.Errorf("got %.200s", got)
	}
}
