package openapi

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"github.com/minikctl/minikctl/pkg/release"
)

// makeSwagger builds the OpenAPI v2 document.
func (s *Specs) makeSwagger() (document, error) {
	defs := newLibrary()
	paths := map[string]any{}
	own := map[string]json.RawMessage{}
	h := sha512.New()
	for _, gv := range s.order {
		fmt.Fprintln(h, s.hash(gv))
		for _, v := range s.versions[gv] {
			if v.custom() {
				d := v.describe(true)
				add(paths, d.paths, asAny)
				add(own, d.definitions, asIs)
				continue
			}
			for _, p := range v.paths(defs) {
				paths[p.url] = p.v2()
			}
		}
	}
	definitions := map[string]any{}
	for name, raw := range defs.used() {
		var d map[string]any
		if err := json.Unmarshal(raw, &d); err != nil {
			return document{}, fmt.Errorf("read the definition %s: %w", name, err)
		}
		definitions[name] = schema2(d)
	}
	add(definitions, own, asAny)
	body := mustJSON(map[string]any{
		"swagger":     "2.0",
		"info":        map[string]any{"title": "Kubernetes", "version": release.Kubernetes},
		"paths":       paths,
		"definitions": definitions,
		"securityDefinitions": map[string]any{"BearerToken": map[string]any{
			"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication",
		}},
		"security": []any{map[string]any{"BearerToken": []any{}}},
	})
	return document{body, hex.EncodeToString(h.Sum(nil))}, nil
}

func (s *Specs) makeProtobuf() (document, error) {
	d, err := s.swagger()
	if err != nil {
		return d, err
	}
	parsed, err := openapi_v2.ParseDocument(d.body)
	if err != nil {
		return document{}, fmt.Errorf("read the OpenAPI v2 document: %w", err)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	if err != nil {
		return document{}, fmt.Errorf("encode the OpenAPI v2 document: %w", err)
	}
	return document{raw, d.etag}, nil
}

// v2 returns an endpoint in OpenAPI v2.
func (e endpoint) v2() map[string]any {
	item := map[string]any{}
	if len(e.parameters) > 0 {
		item["parameters"] = parameters2(e.parameters)
	}
	for _, o := range e.operations {
		item[o.method] = o.v2()
	}
	return item
}

func parameters2(list []parameter) []any {
	out := make([]any, 0, len(list))
	for _, p := range list {
		m := map[string]any{"name": p.name, "in": p.in, "type": p.kind, "uniqueItems": true}
		if p.text != "" {
			m["description"] = p.text
		}
		if p.in == "path" {
			m["required"] = true
		}
		out = append(out, m)
	}
	return out
}

func (o operation) v2() map[string]any {
	m := o.common()
	m["schemes"] = []string{"https"}
	m["consumes"] = []string{"*/*"}
	if o.consumes != nil {
		m["consumes"] = o.consumes
	}
	list := parameters2(o.query)
	if o.body != "" {
		body := map[string]any{"name": "body", "in": "body", "schema": ref2(o.body)}
		if !o.optional {
			body["required"] = true
		}
		list = append(list, body)
	}
	if len(list) > 0 {
		m["parameters"] = list
	}
	m["produces"] = o.produces()
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for _, code := range o.codes {
		r := map[string]any{"description": http.StatusText(code), "schema": map[string]any{"type": "string"}}
		if o.response != "" {
			r["schema"] = ref2(o.response)
		}
		responses[strconv.Itoa(code)] = r
	}
	m["responses"] = responses
	return m
}

func (o operation) produces() []string {
	switch {
	case o.action == "connect":
		return []string{"*/*"}
	case o.response == "":
		return []string{"text/plain"}
	case o.watches:
		return append(append([]string{}, forms...), watched...)
	}
	return forms
}

func ref2(definition string) map[string]any {
	return map[string]any{"$ref": "#/definitions/" + definition}
}

// schema2 converts a schema of OpenAPI v3 to v2, which has no alternatives and no fields beside a reference.
func schema2(s map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range s {
		switch key {
		case "default", "nullable":
		case "$ref":
			out[key] = ref2(strings.TrimPrefix(fmt.Sprint(value), refPrefix))["$ref"]
		case "allOf":
			if list, ok := value.([]any); ok && len(list) == 1 {
				if one, ok := list[0].(map[string]any); ok {
					for k, v := range schema2(one) {
						out[k] = v
					}
				}
			}
		case "oneOf", "anyOf":
			out["type"] = "string" // quantities and IntOrString: each alternative can be written as a string
		case "properties":
			out[key] = eachSchema(value)
		case "items", "additionalProperties":
			if inner, ok := value.(map[string]any); ok {
				out[key] = schema2(inner)
			}
		default:
			out[key] = value
		}
	}
	return out
}

func eachSchema(value any) any {
	all, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for name, v := range all {
		if s, ok := v.(map[string]any); ok {
			out[name] = schema2(s)
		}
	}
	return out
}
