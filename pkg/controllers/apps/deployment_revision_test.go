package apps

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/minikctl/minikctl/pkg/internal/golden"
)

// TestTemplateHash compares the hashes that name ReplicaSets with those of a real cluster.
func TestTemplateHash(t *testing.T) { golden.Run(t, testTemplateHash) }

func testTemplateHash(t *testing.T, recordings golden.Recordings) {
	files, err := filepath.Glob(filepath.Join(recordings.Dir, "controllers", "*.json"))
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
