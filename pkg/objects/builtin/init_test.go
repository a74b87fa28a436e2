package builtin_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// TestInit bounds the allocations of each package of resources before main, which every command pays for. Rows and regular
// expressions are made when they are needed.
func TestInit(t *testing.T) {
	const most = 100
	if len(builtin.Resources()) == 0 {
		t.Fatal("there are no resources")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := regexp.MustCompile(`(?m)^init (github.com/minikctl/minikctl/pkg/objects\S*) @.* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1)
	if len(lines) == 0 {
		t.Fatalf("no package of resources in the trace:\n%s", out)
	}
	for _, m := range lines {
		if n, err := strconv.Atoi(m[2]); err != nil || n > most {
			t.Errorf("%s allocates %s times at init, more than %d", m[1], m[2], most)
		}
	}
}
