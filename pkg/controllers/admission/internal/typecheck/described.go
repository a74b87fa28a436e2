package typecheck

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	clientopenapi "k8s.io/client-go/openapi"
	"k8s.io/client-go/restmapper"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// described implements Types with discovery and OpenAPI. It reads each document once, so that all types are from one moment.
type described struct {
	api       discovery.DiscoveryInterface
	mapper    meta.RESTMapper                       // nil before the first use
	documents map[string]clientopenapi.GroupVersion // by path; nil before the first use
	schemas   map[schema.GroupVersion]map[string]*spec.Schema
	declared  map[schema.GroupVersionKind]Declared
}

// Described returns the types of an API, as its discovery and OpenAPI documents describe them. It reads them on demand.
func Described(api discovery.DiscoveryInterface) Types {
	return &described{api: api, schemas: map[schema.GroupVersion]map[string]*spec.Schema{}, declared: map[schema.GroupVersionKind]Declared{}}
}

func (d *described) Kinds(gvr schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	if d.mapper == nil {
		groups, err := restmapper.GetAPIGroupResources(d.api)
		if err != nil {
			return nil, fmt.Errorf("read the served API: %w", err)
		}
		d.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	}
	kinds, err := d.mapper.KindsFor(gvr)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return kinds, err
}

func (d *described) Declare(kind schema.GroupVersionKind) (Declared, bool, error) {
	if out, ok := d.declared[kind]; ok {
		return out, true, nil
	}
	all, err := d.read(kind.GroupVersion())
	if err != nil {
		return Declared{}, false, fmt.Errorf("read what describes %v: %w", kind.GroupVersion(), err)
	}
	name, ok := find(all, kind)
	if !ok {
		return Declared{}, false, nil
	}
	whole, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
		s, ok := all[strings.TrimPrefix(ref, "#/components/schemas/")]
		return s, ok
	}, name)
	if err != nil {
		return Declared{}, false, fmt.Errorf("read what describes %v: %w", kind, err)
	}
	var out Declared
	if t := common.SchemaDeclType(&openapi.Schema{Schema: whole}, true); t != nil {
		out.declared = t.MaybeAssignTypeName(kind.Kind + strconv.Itoa(len(d.declared))) // another kind may have the same name
	}
	d.declared[kind] = out
	return out, true, nil
}

// read returns the schemas of a group version, none if the API does not describe it.
func (d *described) read(gv schema.GroupVersion) (map[string]*spec.Schema, error) {
	if all, ok := d.schemas[gv]; ok {
		return all, nil
	}
	if d.documents == nil {
		documents, err := d.api.OpenAPIV3().Paths()
		if err != nil {
			return nil, err
		}
		d.documents = documents
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	var document struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if at, ok := d.documents[path]; ok {
		raw, err := at.Schema(runtime.ContentTypeJSON)
		if err == nil {
			err = json.Unmarshal(raw, &document)
		}
		if err != nil {
			return nil, err
		}
	}
	d.schemas[gv] = document.Components.Schemas
	return document.Components.Schemas, nil
}

// find returns the name of the schema of a kind.
func find(all map[string]*spec.Schema, kind schema.GroupVersionKind) (string, bool) {
	for name, s := range all {
		var kinds []schema.GroupVersionKind
		if s.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds) == nil && slices.Contains(kinds, kind) {
			return name, true
		}
	}
	return "", false
}
