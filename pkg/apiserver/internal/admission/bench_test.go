package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// BenchmarkNothingConfigured is what the plugins that look at configurations cost a create while there are none: no
// ranges, quotas, security labels, policies and webhooks.
func BenchmarkNothingConfigured(b *testing.B) {
	r := newReader()
	cfg := Config{Reader: r, Source: clock.NewSource(1), Clock: clock.Real(),
		Quota: func(context.Context, *corev1.ResourceQuota) error { return nil },
		UID:   func() types.UID { return "" },
		Find:  func(schema.GroupVersionKind) (*objects.Resource, *objects.Served) { return nil, nil }}
	dynamic := map[string]bool{"LimitRanger": true, "PodSecurity": true, "ResourceQuota": true, "MutatingAdmissionPolicy": true,
		"ValidatingAdmissionPolicy": true, "MutatingAdmissionWebhook": true, "ValidatingAdmissionWebhook": true}
	mutators, validators := New(cfg)
	for name, a := range map[string]*stage.Attributes{
		"Pod":       create(pods, newPod(nil)),
		"ConfigMap": create(schema.GroupResource{Resource: "configmaps"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "ns"}}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, m := range mutators {
					if dynamic[m.Name()] {
						if err := m.Mutate(b.Context(), a); err != nil {
							b.Fatal(err)
						}
					}
				}
				for _, v := range validators {
					if dynamic[v.Name()] {
						if err := v.Admit(b.Context(), a); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		})
	}
}
