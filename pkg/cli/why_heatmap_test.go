package cli

import (
	"bytes"
	"testing"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// TestHeatmap draws the decision about a pod with two feasible nodes and one that a plugin rejected.
func TestHeatmap(t *testing.T) {
	d := &minikctl.Decision{Node: "b", Filters: []string{"NodeName", "TaintToleration"}, SkippedFilters: []string{"NodePorts"},
		Rejected: []minikctl.Rejection{{Plugin: "TaintToleration", Reasons: []string{"taint <x>"}, Nodes: []string{"c"}, Count: 1}}}
	for _, s := range []struct {
		node  string
		score int64
	}{{"a", 40}, {"b", 100}} {
		d.Scores = append(d.Scores, minikctl.NodeScores{Nodes: []string{s.node}, Total: s.score * 3, Plugins: []minikctl.PluginScore{
			{Plugin: "Fit", Raw: s.score, Score: s.score * 3, Weight: 3}, {Plugin: "Image", Weight: 1}}})
	}
	var verdicts []minikctl.Verdict
	for _, node := range d.Listed() {
		verdicts = append(verdicts, d.Verdict(node))
	}
	h := newHeatmap("pod/p", verdicts)
	var text bytes.Buffer
	h.printText(&text, false)
	const want = `pod/p
   1  2  3  4
b  █  █  █  ·   chosen
a  █  █  ░  ·
c  █  x         taint <x>

 1 Filter NodeName
 2 Filter TaintToleration
 3 Score Fit
 4 Score Image
x rejected; others from the worst to the best: ·░▒▓█
skipped the pod: Filter NodePorts
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	var image bytes.Buffer
	printSVG(&image, []heatmap{h, h})
	wantSVG(t, image.String(), `width="460" height="560"`, `<g transform="translate(0 280)">`, "<title>c, Filter TaintToleration: Rejected: taint &lt;x&gt;</title>", "<title>a, Score Fit: 40, normalised 40, × 3 = 120</title>")
}
