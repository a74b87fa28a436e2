package openapi

import (
	"fmt"
	"net/http"
	"strconv"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// forms lists the media types of objects; watched lists those of watches.
var (
	forms   = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	watched = []string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
)

// v3 returns an endpoint in OpenAPI v3.
func (e endpoint) v3() map[string]any {
	item := map[string]any{}
	if len(e.parameters) > 0 {
		item["parameters"] = parameters3(e.parameters)
	}
	for _, o := range e.operations {
		item[o.method] = o.v3()
	}
	return item
}

func parameters3(list []parameter) []any {
	out := make([]any, 0, len(list))
	for _, p := range list {
		m := map[string]any{"name": p.name, "in": p.in, "schema": map[string]any{"type": p.kind, "uniqueItems": true}}
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

func (o operation) v3() map[string]any {
	m := o.common()
	if len(o.query) > 0 {
		m["parameters"] = parameters3(o.query)
	}
	if o.body != "" {
		consumes := o.consumes
		if consumes == nil {
			consumes = []string{"*/*"}
		}
		body := map[string]any{"content": content3(consumes, o.body)}
		if !o.optional {
			body["required"] = true
		}
		m["requestBody"] = body
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for _, code := range o.codes {
		r := map[string]any{"description": http.StatusText(code)}
		switch {
		case o.response != "":
			types := forms
			if o.watches {
				types = append(append([]string{}, forms...), watched...)
			}
			r["content"] = content3(types, o.response)
		case o.action == "connect":
			r["content"] = text3("*/*")
		default:
			r["content"] = text3("text/plain")
		}
		responses[strconv.Itoa(code)] = r
	}
	m["responses"] = responses
	return m
}

// common returns the fields of an operation that both versions have.
func (o operation) common() map[string]any {
	return map[string]any{
		"tags": []string{o.tag}, "operationId": o.id, "description": o.text, "x-kubernetes-action": o.action,
		"x-kubernetes-group-version-kind": map[string]string{"group": o.gvk.Group, "version": o.gvk.Version, "kind": o.gvk.Kind},
	}
}

func content3(types []string, definition string) map[string]any {
	out := map[string]any{}
	for _, t := range types {
		out[t] = map[string]any{"schema": map[string]any{"$ref": refPrefix + definition}}
	}
	return out
}

func text3(media string) map[string]any {
	return map[string]any{media: map[string]any{"schema": map[string]any{"type": "string"}}}
}

// encodeV3 returns an OpenAPI v3 document in protobuf.
func encodeV3(body []byte) ([]byte, error) {
	parsed, err := openapi_v3.ParseDocument(body)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI v3 document: %w", err)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI v3 document: %w", err)
	}
	return raw, nil
}
