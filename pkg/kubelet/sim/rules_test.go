package sim_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

// TestRulesDocs: docs/simulation.md has a row for each rule.
func TestRulesDocs(t *testing.T) {
	b, err := os.ReadFile("../../../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sim.Rules {
		if row := fmt.Sprintf("| `%s` | `%s` | %s |\n", r.Annotation, r.Value, r.Effect); !strings.Contains(string(b), row) {
			t.Errorf("docs/simulation.md lacks\n%s", row)
		}
	}
}
