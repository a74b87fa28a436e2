package apiserver_test

import (
	"regexp"
	"slices"
)

const masked = "<masked>"

// differs lists the fields whose values differ between any two servers.
var differs = []string{
	"uid", "creationTimestamp", "resourceVersion", "time", "deletionTimestamp", "renewTime", "acquireTime", "continue",
	"expirationTimestamp", "token", "lastTransitionTime", "lastPhaseTransitionTime", "evaluationError",
}

var texts = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), "kube-api-access-" + masked},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), masked},
	{regexp.MustCompile(`:3[0-2]\d{3}/`), ":" + masked + "/"},
	{regexp.MustCompile(`in record \(\d+\)`), "in record (" + masked + ")"},
	{regexp.MustCompile(`current: \d+`), "current: " + masked},
	{regexp.MustCompile(`\b(gen-)[a-z0-9]{5}\b`), "${1}" + masked},
}

var inYAML = regexp.MustCompile(`(resourceVersion|uid|creationTimestamp|time): .*`)

// mask replaces the values that differ between any two servers.
func mask(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = maskField(key, value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mask(v[i])
		}
		return out
	case string:
		for _, t := range texts {
			v = t.pattern.ReplaceAllString(v, t.with)
		}
		return v
	}
	return v
}

func maskField(key string, v any) any {
	switch {
	case key == "raw":
		text, _ := v.(string)
		return mask(inYAML.ReplaceAllString(text, "$1: "+masked))
	case slices.Contains(differs, key) && v != nil && v != "":
		return masked
	case key == "clusterIP" && v != "None" && v != "" && v != nil:
		return masked
	case key == "clusterIPs":
		list, _ := v.([]any)
		if len(list) == 1 && list[0] == "None" {
			return v
		}
		return len(list)
	case (key == "nodePort" || key == "healthCheckNodePort") && v != 0.0 && v != nil:
		return masked
	}
	return mask(v)
}

func isTable(v any) bool {
	object, _ := v.(map[string]any)
	return object["kind"] == "Table"
}

// ages are the columns whose cells differ.
var ages = []string{"Age", "Last Seen", "First Seen", "Cluster-IP", "Created At", "Token", "UID"}

// rows returns the compared part of a Table: the columns without their descriptions, and the rows.
func rows(v any) any {
	table, _ := v.(map[string]any)
	definitions, ok := table["columnDefinitions"].([]any)
	if !ok {
		return v
	}
	var columns, out []any
	for _, d := range definitions {
		c := d.(map[string]any)
		columns = append(columns, []any{c["name"], c["type"], c["format"], c["priority"]})
	}
	list, _ := table["rows"].([]any)
	for _, l := range list {
		cells, recorded := l.([]any) // a recorded row may have cells only
		if !recorded {
			cells = slices.Clone(l.(map[string]any)["cells"].([]any))
		}
		for i := range min(len(cells), len(definitions)) {
			name, _ := definitions[i].(map[string]any)["name"].(string)
			if slices.Contains(ages, name) && cells[i] != "None" && cells[i] != "<none>" {
				cells[i] = masked
			}
		}
		out = append(out, mask(cells))
	}
	return []any{columns, out}
}
