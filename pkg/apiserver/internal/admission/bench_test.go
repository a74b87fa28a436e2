package admission

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// BenchmarkNothingConfigured measures the plugins' cost of a create in a cluster without limit ranges, quotas, security
// labels, policies and webhooks.
func BenchmarkNothingConfigured(b *testing.B) {
	r := newReader()
	cfg := Config{Reader: r, Source: clock.NewSource(1), Clock: clock.Real(),
		Quota: func(context.Context, *corev1.ResourceQuota) error { return nil },
		UID:   func() types.UID { return "" },
		Find:  func(schema.GroupVersionKind) (*objects.Resource, *objects.VersionOf) { return nil, nil }}
	dynamic := map[string]bool{"LimitRanger": true, "PodSecurity": true, "MutatingAdmissionPolicy": true,
		"ValidatingAdmissionPolicy": true, "MutatingAdmissionWebhook": true, "ValidatingAdmissionWebhook": true}
	stages := New(cfg)
	stages.Mutators = slices.DeleteFunc(stages.Mutators, func(m stage.Mutator) bool { return !dynamic[m.Name()] })
	stages.Validators = slices.DeleteFunc(stages.Validators, func(v stage.Validator) bool { return !dynamic[v.Name()] })
	for name, a := range map[string]*stage.Admission{
		"Pod":       create(pods, newPod(nil)),
		"ConfigMap": create(schema.GroupResource{Resource: "configmaps"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "ns"}}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var tx stage.Transaction
				err := errors.Join(stages.Mutate(b.Context(), a), stages.Validate(b.Context(), a), stages.Reserve(b.Context(), a, &tx))
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
