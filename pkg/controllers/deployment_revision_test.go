package controllers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// goldenDir returns the folder of recordings of a real cluster, and skips the test where there is none.
func goldenDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MINIKCTL_GOLDEN")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "golden")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no recordings: set MINIKCTL_GOLDEN")
	}
	return dir
}

// TestTemplateHash compares the hashes that name ReplicaSets with those of a real cluster.
func TestTemplateHash(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir(t), "controllers", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var scenario struct {
			Steps []struct {
				State struct {
					ReplicaSet []appsv1.ReplicaSet
				}
			}
		}
		if err := json.Unmarshal(raw, &scenario); err != nil {
			t.Fatal(err)
		}
		for _, step := range scenario.Steps {
			for _, s := range step.State.ReplicaSet {
				want, ok := s.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
				if !ok {
					continue
				}
				template := s.Spec.Template.DeepCopy()
				delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
				if got := templateHash(template, nil); got != want {
					t.Errorf("%s: %s: got hash %s, want %s", filepath.Base(file), s.Name, got, want)
				}
				if !strings.HasSuffix(s.Name, "-"+want) {
					t.Errorf("%s: odd recording: %s", file, s.Name)
				}
				seen[want] = true
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("only %d different hashes in the recordings", len(seen))
	}
}
