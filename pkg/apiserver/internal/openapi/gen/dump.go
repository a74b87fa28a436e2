package main

// dump is the program that turns the generated definitions into JSON, with the kinds that each type is known as.
const dump = `package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"definitions/definitions"
)

type named interface{ OpenAPIModelName() string }

func kinds() map[string][]any {
	found := map[string][]schema.GroupVersionKind{}
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			panic(err)
		}
	}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == "__internal" {
			continue
		}
		if n, ok := reflect.New(t).Elem().Interface().(named); ok {
			found[n.OpenAPIModelName()] = append(found[n.OpenAPIModelName()], gvk)
		}
	}
	out := map[string][]any{}
	for name, list := range found {
		sort.Slice(list, func(i, j int) bool {
			a, b := list[i], list[j]
			if a.Group != b.Group {
				return a.Group < b.Group
			}
			if a.Version != b.Version {
				return a.Version < b.Version
			}
			return a.Kind < b.Kind
		})
		for _, gvk := range list {
			out[name] = append(out[name], map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind})
		}
	}
	return out
}

func main() {
	known := kinds()
	var names []string
	for name := range definitions.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} }) {
		names = append(names, name)
	}
	config := &common.OpenAPIV3Config{
		Info:           &spec.Info{},
		GetDefinitions: definitions.GetOpenAPIDefinitions,
		GetDefinitionName: func(name string) (string, spec.Extensions) {
			if list := known[name]; list != nil {
				return name, spec.Extensions{"x-kubernetes-group-version-kind": list}
			}
			return name, nil
		},
	}
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(schemas)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`
