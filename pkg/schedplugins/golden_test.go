package schedplugins

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/internal/golden"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// recording holds recorded decisions of a real scheduler.
type recording struct {
	Nodes  []*corev1.Node
	Pods   []*corev1.Pod
	Pod    *corev1.Pod
	Result struct{ Node, Reason, Unschedulable string }
	Scores map[string]map[string]int64 `json:"weightedScores"`
	Totals map[string]int64
}

// TestGolden makes the recorded decisions again, and compares nodes, messages and scores.
func TestGolden(t *testing.T) { golden.Run(t, testGolden) }

func testGolden(t *testing.T, recordings golden.Recordings) {
	files, err := filepath.Glob(filepath.Join(recordings.Dir, "scheduling", "s*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s: %v", recordings.Dir, err)
	}
	equal := 0
	for _, file := range files {
		diff, err := replay(file)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		case diff == "":
			equal++
		default:
			t.Logf("%s: %s", filepath.Base(file), diff)
		}
	}
	t.Logf("%d of %d recordings are equal", equal, len(files))
	compareCount(t, recordings.Counts(), equal)
}

func replay(file string) (diff string, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var rec recording
	if err := json.Unmarshal(raw, &rec); err != nil {
		return "", err
	}
	got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Nodes: rec.Nodes, Pods: rec.Pods, Pod: rec.Pod})
	if err != nil {
		return "", err
	}
	if rec.Result.Node == "" {
		if got.Message != rec.Result.Unschedulable {
			return fmt.Sprintf("message\n got %s\nwant %s", got.Message, rec.Result.Unschedulable), nil
		}
		return "", nil
	}
	return compareScores(rec, got), nil
}

func compareScores(rec recording, got scheduler.Outcome) string {
	if got.Node == "" {
		return "unschedulable: " + got.Message
	}
	var best int64
	for _, total := range rec.Totals {
		best = max(best, total)
	}
	if len(rec.Totals) > 0 && rec.Totals[got.Node] != best {
		return fmt.Sprintf("node %s, want %s", got.Node, rec.Result.Node)
	}
	var diffs []string
	for _, n := range got.Scores {
		want, ok := rec.Scores[n.Node]
		if !ok && len(rec.Scores) > 0 {
			diffs = append(diffs, n.Node+" is not feasible upstream")
		}
		for _, p := range n.Plugins {
			if ok && want[p.Plugin] != p.Score {
				diffs = append(diffs, fmt.Sprintf("%s %s %d, want %d", n.Node, p.Plugin, p.Score, want[p.Plugin]))
			}
		}
		if ok && len(want) != len(n.Plugins) {
			diffs = append(diffs, fmt.Sprintf("%s has scores of %d plugins, want %d", n.Node, len(n.Plugins), len(want)))
		}
	}
	if len(rec.Scores) > 0 && len(got.Scores) != len(rec.Scores) {
		diffs = append(diffs, fmt.Sprintf("%d nodes feasible, want %d", len(got.Scores), len(rec.Scores)))
	}
	slices.Sort(diffs)
	return strings.Join(diffs, "; ")
}

func compareCount(t *testing.T, counts string, equal int) {
	t.Helper()
	raw, err := os.ReadFile(counts)
	if err != nil {
		t.Fatal(err)
	}
	var want int
	if _, err := fmt.Sscan(string(raw), &want); err != nil {
		t.Fatal(err)
	}
	if equal < want {
		t.Errorf("%d recordings are equal, were %d", equal, want)
	}
	if equal > want {
		t.Errorf("%d recordings are equal, more than the %d before: write that into %s", equal, want, counts)
	}
}
