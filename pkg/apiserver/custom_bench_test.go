package apiserver_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
)

const typedSchema = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
	"replicas":{"type":"integer","default":1},"image":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},
	"labels":{"type":"object","additionalProperties":{"type":"string"}}},
	"x-kubernetes-validations":[{"rule":"self.replicas >= 0"}]}}}}`

// BenchmarkCustom measures the verbs on a small custom resource with a schema and a rule, without HTTP.
func BenchmarkCustom(b *testing.B) {
	c := customs{b, apiservertest.New(b)}
	c.define("toys", definitionOf("toys", "Toy", "", `{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},`+typedSchema+`}`))
	toys := c.env.Server.Client(&user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}, "bench")
	target := client.Target{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "toys"}, Namespace: "default"}
	made := 0
	create := func(b *testing.B) {
		toy := &unstructured.Unstructured{Object: mustMap(b, cr("v1", "Toy", fmt.Sprintf("toy-%d", made),
			`,"spec":{"image":"a:1","args":["x","y","z"],"labels":{"a":"b","c":"d"}}`))}
		made++
		if _, err := toys.Create(b.Context(), target, toy, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			create(b)
		}
	})
	one := target
	one.Name = "toy-0"
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := toys.Get(b.Context(), one, metav1.GetOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("patch", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			p := client.Patch{Type: "application/merge-patch+json", Data: fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, i)}
			if _, err := toys.Patch(b.Context(), one, p, metav1.PatchOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for made < 5000 {
		create(b)
	}
	b.Run("list5000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			do(b, c.env, "GET", at("v1", "toys", ""), "")
		}
	})
}
