package scheduler

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// TestAllConfigErrors checks that all errors are named that Kubernetes' strict decoding names, and those that it names only once others are corrected.
func TestAllConfigErrors(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kubernetes := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(configv1.SchemeGroupVersion)
	const args = "profiles: [{schedlerName: a, pluginConfig: [{name: NodeResourcesFit, args: {strateg: {}, scoringStratgy: {}}}, {name: VolumeBinding, args: {bindTimeoutSeconds: 1, x: 2}}]}]"
	for _, c := range []struct {
		name, config string
		named        []string // by Kubernetes, too
		more         []string
	}{
		{"unknown fields", "profles: []\nparalelism: 1\nextenders: [{verb: a}]", []string{`unknown field "profles"`, `unknown field "paralelism"`, `unknown field "extenders[0].verb"`}, nil},
		{"repeated and unknown fields", "parallelism: 1\nparallelism: 2\nprofles: []", []string{`key "parallelism" already set in map`, `unknown field "profles"`}, nil},
		{"unknown fields of arguments", args, []string{`unknown field "profiles[0].schedlerName"`, `unknown field "strateg"`, `unknown field "scoringStratgy"`, `unknown field "x"`}, nil},
		{"a type and unknown fields", "parallelism: many\nprofles: []\n" + args, nil,
			[]string{"parallelism: a string is not a number", `unknown field "profles"`, `unknown field "profiles[0].schedlerName"`, `profiles[0].pluginConfig[0].args: scheduler plugin NodeResourcesFit: unknown field "strateg"`}},
		{"types", "parallelism: many\nextenders: [{urlPrefix: http://x, weight: much}]", nil, []string{"parallelism: a string is not a number", "extenders.weight: a string is not a number"}},
	} {
		_, theirs := runtime.Decode(kubernetes, []byte(head+c.config))
		_, ours := parseConfig([]byte(head + c.config))
		if theirs == nil || ours == nil {
			t.Errorf("%s: got errors %v and %v", c.name, theirs, ours)
			continue
		}
		for _, want := range c.named {
			if !strings.Contains(theirs.Error(), want) {
				t.Errorf("%s: Kubernetes does not name %s: %v", c.name, want, theirs)
			}
		}
		for _, want := range append(c.named, c.more...) {
			if strings.Count(ours.Error(), want) != 1 {
				t.Errorf("%s: got %v, want %s once", c.name, ours, want)
			}
		}
		if n := strings.Count(theirs.Error(), "unknown field") + strings.Count(theirs.Error(), "already set in map"); n != len(c.named) {
			t.Errorf("%s: Kubernetes names %d fields, want %d: %v", c.name, n, len(c.named), theirs)
		}
	}
}
