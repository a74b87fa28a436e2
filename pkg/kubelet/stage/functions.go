package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// Env is what templates can read beside their object.
type Env struct {
	Now, Started time.Time
	Node         string // the name of the object's node
	Addresses
}

// Addresses has the addresses of nodes and pods.
type Addresses interface {
	NodeIP(node string) string
	NodePort(node string) int32
	// PodIP returns the address of the object, a pod; the same one at each call.
	PodIP() (string, error)
}

// functionsOf returns the functions of templates: kwok's own and the most used ones of sprig, which kwok has, too. Each call counts as a
// step of the rendering.
func functionsOf(r *rendering) template.FuncMap {
	out := template.FuncMap{tick: r.step}
	maps.Copy(out, generic)
	maps.Copy(out, r.bounded())
	maps.Copy(out, template.FuncMap{
		"Now":            func() string { return stamp(r.Now) },
		"now":            func() time.Time { return r.Now },
		"StartTime":      func() string { return stamp(r.Started) },
		"Version":        func() string { return "v0.8.0" },
		"NodeConditions": func() any { return nodeConditions },
		"Quote":          quote,
		"YAML":           indentedYAML,
		"NodeName":       func() string { return r.Node },
		"NodeIP":         func() string { return r.NodeIP(r.Node) },
		"NodePort":       func() int32 { return r.NodePort(r.Node) },
		"NodeIPWith":     func(node string) string { return r.NodeIP(node) },
		"NodeIPsWith":    func(node string) []string { return list(r.NodeIP(node)) },
		"PodIP":          func() (string, error) { return r.PodIP() },
		"PodIPWith": func(node string, host bool, _, _, _ string) (string, error) {
			if host {
				return r.NodeIP(node), nil
			}
			return r.PodIP()
		},
		"PodIPsWith": func(node string, host bool, _, _, _ string) ([]string, error) {
			if host {
				return list(r.NodeIP(node)), nil
			}
			ip, err := r.PodIP()
			return list(ip), err
		},
	})
	return out
}

func list(ip string) []string {
	if ip == "" {
		return nil
	}
	return []string{ip}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// nodeConditions are the conditions of a healthy node.
var nodeConditions = []any{
	condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
	condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
	condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
	condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
	condition("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
}

func condition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": nil, "lastTransitionTime": nil}
}

// quote returns a value as a JSON string: a string as it is, another value as its JSON.
func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return strconv.Quote(fmt.Sprint(v))
	}
	if len(b) > 0 && b[0] == '"' {
		return string(b)
	}
	return strconv.Quote(string(b))
}

// indentedYAML returns a value as YAML, indented by two spaces a level.
func indentedYAML(v any, levels ...int) (string, error) {
	b, err := yaml.Marshal(v)
	if err != nil || len(levels) != 1 || levels[0] <= 0 {
		return string(b), err
	}
	const deepest = 32
	pad := "\n" + strings.Repeat("  ", min(levels[0], deepest))
	return strings.ReplaceAll("\n"+string(b), "\n", pad), nil
}
