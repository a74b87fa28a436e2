package clustertest

import (
	"os"
	"strings"
	"testing"
)

// TestSchedulingTutorial verifies that the script scheduling.txt runs each command of docs/scheduling.md, in the same order.
func TestSchedulingTutorial(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/scheduling.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/scheduling.txt")
	if err != nil {
		t.Fatal(err)
	}
	commands, rest := 0, string(script)
	for _, block := range strings.Split(string(doc), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			commands++
			_, after, found := strings.Cut(rest, line)
			if !found {
				t.Errorf("the script does not run, after the commands before: %s", line)
				continue
			}
			rest = after
		}
	}
	if commands < 15 {
		t.Errorf("the tutorial has %d commands", commands)
	}
}
