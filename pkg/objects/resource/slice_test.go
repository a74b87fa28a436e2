package resource

import (
	"fmt"
	"strings"
	"testing"
)

const header = `driver: d.io, pool: {name: p, resourceSliceCount: 1}, nodeName: n`

func TestSlices(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{name: d}, `, 129), ", ")
	tests := []struct {
		name, spec string
		want       []string
	}{
		{"plain", header, nil},
		{"nothing", ``, []string{"spec.driver: Required value", "spec.pool.name: Required value", "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
			"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"}},
		{"two", header + `, allNodes: true, perDeviceNodeSelection: false`, []string{"spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
			"spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"}},
		{"counters and devices", header + `, devices: [], sharedCounters: []`, []string{"spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"}},
		{"counters", header + `, sharedCounters: [{name: a, counters: {A: {value: 1}}}, {}, {name: a, counters: {b: {value: 1}}}]`,
			[]string{`spec.sharedCounters[0].counters: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				"spec.sharedCounters[1].name: Required value", "spec.sharedCounters[1].counters: Required value", `spec.sharedCounters[2]: Duplicate value: "a"`}},
		{"many", header + `, devices: [` + many + `]`, []string{"spec.devices: Too many: 129: must have at most 128 items"}},
		{"device of nodes", header + `, devices: [{name: a, allNodes: true}]`,
			[]string{"spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"}},
		{"attributes", header + `, devices: [{name: a, attributes: {a/b/c: {int: 1}, "1": {int: 1}, d.io/: {bool: true}, v: {version: 1.02.3}, w: {version: 1.2.3-rc.1+b.05}, x: {}}}]`,
			[]string{`spec.devices[0].attributes: Invalid value: "1": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')`,
				`spec.devices[0].attributes: Invalid value: "": the name must not be empty`,
				`spec.devices[0].attributes[v].version: Invalid value: "1.02.3": must be a string compatible with semver.org spec 2.0.0`,
				`spec.devices[0].attributes[x]: Invalid value: "": exactly one value must be specified`}},
		{"taints", header + `, devices: [{name: a, taints: [{key: "", effect: Never}, {key: k}]}]`,
			[]string{"spec.devices[0].taints[0].key: Invalid value: \"\": name part must be non-empty",
				"spec.devices[0].taints[0].key: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
				`spec.devices[0].taints[0].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"`, "spec.devices[0].taints[1].effect: Required value"}},
		{"conditions", header + `, devices: [{name: a, bindingConditions: [a, a], bindingFailureConditions: [a]}]`,
			[]string{`spec.devices[0].bindingConditions[1]: Duplicate value: "a"`,
				`spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`}},
		{"policy unshared", header + `, devices: [{name: a, capacity: {m: {value: 4, requestPolicy: {}}}}]`,
			[]string{"spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"}},
		{"policies", header + `, devices: [{name: a, allowMultipleAllocations: true, capacity: {
			a: {value: 4, requestPolicy: {validValues: [1], validRange: {min: 1}}}, b: {value: 4, requestPolicy: {validValues: [1]}},
			c: {value: 4, requestPolicy: {default: 3, validValues: [2, 1, 1, 5]}}, d: {value: 4, requestPolicy: {default: 1, validRange: {}}},
			e: {value: 4, requestPolicy: {default: 7, validRange: {min: 2, max: 6, step: 3}}}, f: {value: 8, requestPolicy: {default: 2, validRange: {min: 2, max: 8, step: 3}}},
			g: {value: 8, requestPolicy: {default: 2, validRange: {min: 2, step: 0}}}}}]`,
			[]string{`spec.devices[0].capacity[a].requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`,
				"spec.devices[0].capacity[b].requestPolicy.default: Required value: required when validValues is defined",
				`spec.devices[0].capacity[c].requestPolicy.validValues[1]: Invalid value: "1": values must be sorted in ascending order`,
				`spec.devices[0].capacity[c].requestPolicy.validValues[3]: Invalid value: "5": option is larger than capacity value: 4`,
				`spec.devices[0].capacity[c].requestPolicy.validValues[2]: Duplicate value: "1"`,
				`spec.devices[0].capacity[c].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy`,
				"spec.devices[0].capacity[d].requestPolicy.validRange.min: Required value: required when validRange is defined",
				`spec.devices[0].capacity[e].requestPolicy.validRange.max: Invalid value: "6": max is larger than capacity value: 4`,
				`spec.devices[0].capacity[e].requestPolicy.validRange.max: Invalid value: "7": default is more than max: 6`,
				`spec.devices[0].capacity[e].requestPolicy.validRange.step: Invalid value: "3": one step 5 is larger than capacity value: 4`,
				`spec.devices[0].capacity[e].requestPolicy.validRange.step: Invalid value: "7": value is not a multiple of a given step (3) from (2)`,
				`spec.devices[0].capacity[e].requestPolicy.validRange.step: Invalid value: "6": value is not a multiple of a given step (3) from (2)`,
				`spec.devices[0].capacity[g].requestPolicy.validRange.step: Invalid value: "2": value is not a multiple of a given step (0) from (2)`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, ResourceSlices, "spec: {"+tt.spec+"}")
			prepareSlice(s, nil)
			want(t, validateSlice(s, nil), tt.want...)
		})
	}
}

func TestSliceUpdates(t *testing.T) {
	old := parse(t, ResourceSlices, "spec: {"+header+", devices: [{name: a, attributes: {l: {ints: [1]}}}]}")
	now := parse(t, ResourceSlices, "spec: {driver: e.io, pool: {name: q, resourceSliceCount: 1}, nodeName: m, devices: [{name: a, attributes: {l: {ints: [1, 2]}}}]}")
	prepareSlice(now, old)
	if now.Generation != old.Generation+1 || len(now.Spec.Devices[0].Attributes["l"].IntValues) != 2 {
		t.Errorf("got %v", now)
	}
	want(t, validateSlice(now, old), `spec.pool.name: Invalid value: "q": field is immutable`, `spec.driver: Invalid value: "e.io": field is immutable`,
		`spec.nodeName: Invalid value: "m": field is immutable`)
	prepareSlice(now, nil)
	if now.Generation != 1 || isList(now.Spec.Devices[0].Attributes["l"]) {
		t.Errorf("a feature that is off: %v", now)
	}
	now.Spec.Driver = "Upper.io"
	if got := fmt.Sprint(sliceWarnings(now, nil)); got != `[spec.driver: driver names should be lowercase; "Upper.io" contains uppercase characters]` {
		t.Error(got)
	}
}

func TestShorten(t *testing.T) {
	for s, want := range map[string]string{"short": "short", strings.Repeat("a", 10) + strings.Repeat("b", 10): "aaaaaaa...bbbbbb"} {
		if got := shorten(s, 1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
