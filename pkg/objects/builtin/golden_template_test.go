package builtin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/internal/golden"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// templates are the paths of pod templates by kind.
var templates = map[string][]string{
	"CronJob":               {"spec", "jobTemplate", "spec", "template"},
	"DaemonSet":             {"spec", "template"},
	"Job":                   {"spec", "template"},
	"ReplicationController": {"spec", "template"},
	"StatefulSet":           {"spec", "template"},
}

// TestGoldenTemplates compares the defaults and errors of pod templates with recorded ones.
func TestGoldenTemplates(t *testing.T) { golden.Run(t, testGoldenTemplates) }

func testGoldenTemplates(t *testing.T, recordings golden.Recordings) {
	for kind, path := range templates {
		equal, all := 0, 0
		for _, c := range readCases(t, filepath.Join(recordings.Dir, "create", kind+".jsonl")) {
			if c.Status != 201 && c.Status != 422 {
				continue
			}
			raw, ok := dig(c.Request, path)
			if !ok {
				continue
			}
			all++
			diff := compareTemplate(raw, path, c, kind)
			if diff == "" {
				equal++
				continue
			}
			t.Errorf("%s/%s: %s", kind, c.Name, diff)
		}
		t.Logf("%s: %d of %d", kind, equal, all)
	}
}

func dig(raw json.RawMessage, path []string) (json.RawMessage, bool) {
	for _, name := range path {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil {
			return nil, false
		}
		next, ok := m[name]
		if !ok {
			return nil, false
		}
		raw = next
	}
	return raw, true
}

func compareTemplate(raw json.RawMessage, path []string, c recorded, kind string) string {
	var template corev1.PodTemplateSpec
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &template); err != nil {
		return err.Error()
	}
	podspec.DefaultTemplate(&template)
	at := field.NewPath(path[0], path[1:]...)
	checked := template.DeepCopy()
	if kind == "StatefulSet" { // its pods have volumes and hostnames
		checked.Spec.Volumes = append(claimed(c.Request, checked.Spec.Volumes), checked.Spec.Volumes...)
		checked.Spec.Hostname = ""
	}
	if c.Status == 422 {
		return compareTemplateCauses(podspec.ValidateTemplate(checked, nil, at), at.String(), c)
	}
	if errs := podspec.ValidateTemplate(checked, nil, at); len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	response, err := json.Marshal(c.Response)
	if err != nil {
		return err.Error()
	}
	stored, _ := dig(response, path)
	b, err := json.Marshal(template)
	if err != nil {
		return err.Error()
	}
	var want, got map[string]any
	if err := json.Unmarshal(stored, &want); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(b, &got); err != nil {
		return err.Error()
	}
	for _, m := range []map[string]any{want, got} { // Jobs add labels
		meta, _ := m["metadata"].(map[string]any)
		if kind == "Job" {
			delete(meta, "labels")
		}
	}
	return firstDiff(want, got, "")
}

// claimed returns the volumes of a StatefulSet's claim templates.
func claimed(request json.RawMessage, have []corev1.Volume) []corev1.Volume {
	var set struct {
		Spec struct {
			VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
		}
	}
	_ = json.Unmarshal(request, &set) // no other kind has claim templates
	var out []corev1.Volume
	for _, c := range set.Spec.VolumeClaimTemplates {
		v := corev1.Volume{Name: c.Metadata.Name}
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Metadata.Name}
		if !slices.ContainsFunc(have, func(h corev1.Volume) bool { return h.Name == v.Name }) {
			out = append(out, v)
		}
	}
	return out
}

// compareTemplateCauses compares the causes below a template, except those that depend on the kind.
func compareTemplateCauses(errs field.ErrorList, at string, c recorded) string {
	ofKind := func(name string) bool {
		return name == at+".spec.restartPolicy" || name == at+".metadata.labels" || name == at+".labels"
	}
	details, _ := c.Response["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	var want, got []string
	for _, cause := range causes {
		m := cause.(map[string]any)
		if name := fmt.Sprint(m["field"]); strings.HasPrefix(name, at+".") && !ofKind(name) {
			want = append(want, fmt.Sprintf("%v: %v", name, m["message"]))
		}
	}
	for _, err := range errs {
		if !ofKind(err.Field) {
			got = append(got, fmt.Sprintf("%s: %s", err.Field, err.ErrorBody()))
		}
	}
	if !slices.Equal(want, got) {
		return fmt.Sprintf("causes:\n want %s\n got  %s", strings.Join(want, "\n      "), strings.Join(got, "\n      "))
	}
	return ""
}
