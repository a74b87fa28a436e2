package builtin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects/core"
)

// typicalPod has two probes, resources, variables and a volume.
const typicalPod = `
metadata:
  name: web-7d4b9c6f5-x2x9q
  namespace: default
  generateName: web-7d4b9c6f5-
  labels: {app: web, pod-template-hash: 7d4b9c6f5}
  annotations: {prometheus.io/scrape: "true"}
  ownerReferences:
  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-7d4b9c6f5, uid: 6a6e3a0c-5c1e-4d4e-9d52-6c2c6f1e0f11, controller: true}
spec:
  serviceAccountName: default
  containers:
  - name: web
    image: registry.example.com/team/web:1.27
    ports: [{name: http, containerPort: 8080}]
    env:
    - {name: MODE, value: production}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token}}}
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
    livenessProbe: {httpGet: {path: /healthz, port: http}}
    readinessProbe: {httpGet: {path: /ready, port: http}}
    volumeMounts: [{name: config, mountPath: /etc/web}, {name: kube-api-access, mountPath: /var/run/secrets, readOnly: true}]
    securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false}
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  volumes:
  - {name: config, configMap: {name: web}}
  - name: kube-api-access
    projected:
      sources:
      - {serviceAccountToken: {path: token, expirationSeconds: 3607}}
      - {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}
      - {downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}}
`

func parsePod(tb testing.TB) *corev1.Pod {
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(typicalPod), p); err != nil {
		tb.Fatal(err)
	}
	return p
}

// BenchmarkPod measures the functions of the row of pods for a create.
func BenchmarkPod(b *testing.B) {
	fresh := parsePod(b)
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = fresh.DeepCopy()
		}
	})
	b.Run("copy+create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := fresh.DeepCopy()
			core.Pods.Default(p)
			core.Pods.Prepare(p, nil)
			if errs := core.Pods.Validate(p, nil); len(errs) > 0 {
				b.Fatal(errs.ToAggregate())
			}
		}
	})
	p := fresh.DeepCopy()
	core.Pods.Default(p)
	p.ResourceVersion = "1"
	b.Run("default", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			core.Pods.Default(p)
		}
	})
	b.Run("validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			core.Pods.Validate(p, nil)
		}
	})
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		next := p.DeepCopy()
		next.Labels["x"] = "y"
		for b.Loop() {
			core.Pods.Prepare(next, p)
			core.Pods.Validate(next, p)
		}
	})
	b.Run("status", func(b *testing.B) {
		b.ReportAllocs()
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodRunning
		for b.Loop() {
			core.Pods.Status.Prepare(next, p)
			core.Pods.Status.Validate(next, p)
		}
	})
}
