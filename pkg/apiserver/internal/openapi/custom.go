package openapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

// described is the part of a document that describes one custom resource: its paths and definitions.
type described struct{ paths, definitions map[string]json.RawMessage }

// describe returns the description of v in OpenAPI v3, or with v2 in OpenAPI v2. A custom resource without a valid description
// is still served.
func (v served) describe(v2 bool) described {
	d, err := v.read(v2)
	if err != nil {
		slog.Warn("describe a custom resource", "resource", v.resource.Names.GR().String(), "version", v.version.Version, "err", err)
	}
	return d
}

func (v served) read(v2 bool) (described, error) {
	docs, err := v.version.OpenAPI()
	if err != nil {
		return described{}, err
	}
	var doc struct {
		Paths       map[string]json.RawMessage `json:"paths"`
		Definitions map[string]json.RawMessage `json:"definitions"`
		Components  struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	form := any(docs.V3)
	if v2 {
		form = docs.V2
	}
	raw, err := json.Marshal(form)
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	if err != nil {
		return described{}, fmt.Errorf("read the description: %w", err)
	}
	if v2 {
		return described{doc.Paths, doc.Definitions}, nil
	}
	return described{doc.Paths, doc.Components.Schemas}, nil
}

// custom reports whether v is a version of a custom resource, which has its own description.
func (v served) custom() bool { return v.version.OpenAPI != nil }

// add copies the entries of more to into. It keeps existing entries: definitions that all documents share.
func add[T any](into map[string]T, more map[string]json.RawMessage, as func(json.RawMessage) T) {
	for name, raw := range more {
		if _, ok := into[name]; !ok {
			into[name] = as(raw)
		}
	}
}

func asIs(raw json.RawMessage) json.RawMessage { return raw }

func asAny(raw json.RawMessage) any { return raw }
