package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// kinds are those outside of client-go, by the package that defines them.
var kinds = map[string]string{
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": "CustomResourceDefinition",
	"io.k8s.kube-aggregator.pkg.apis.apiregistration.v1":       "APIService",
}

// others returns the types of which the listed kinds consist, except those in known.
func others(known []schema.TypeDef) ([]schema.TypeDef, error) {
	models := map[string]*spec.Schema{}
	var todo []string
	for name, kind := range kinds {
		if err := read(name, models); err != nil {
			return nil, fmt.Errorf("definitions of %s: %w", name, err)
		}
		todo = append(todo, name+"."+kind)
	}
	made, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, t := range known {
		seen[t.Name] = true
	}
	var out []schema.TypeDef
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		t, ok := made.FindNamedType(name)
		if !ok {
			return nil, fmt.Errorf("%s is not defined", name)
		}
		out = append(out, t)
		todo = append(todo, refer(t.Atom)...)
	}
	return out, nil
}

// refer returns the names of the types that a type consists of, and puts its fields in order.
func refer(a schema.Atom) []string {
	var refs []schema.TypeRef
	if a.List != nil {
		refs = append(refs, a.List.ElementType)
	}
	if a.Map != nil {
		refs = append(refs, a.Map.ElementType)
		slices.SortFunc(a.Map.Fields, func(x, y schema.StructField) int { return strings.Compare(x.Name, y.Name) })
		for _, f := range a.Map.Fields {
			refs = append(refs, f.Type)
		}
	}
	var names []string
	for _, r := range refs {
		if r.NamedType != nil {
			names = append(names, *r.NamedType)
		} else {
			names = append(names, refer(r.Inlined)...)
		}
	}
	return names
}

// read adds the definitions of a package.
func read(name string, models map[string]*spec.Schema) (err error) {
	f, err := os.Open(filepath.Join("..", "openapi", "definitions", name+".json.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return json.NewDecoder(r).Decode(&models)
}
