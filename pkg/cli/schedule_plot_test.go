package cli

import (
	"bytes"
	"testing"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// TestPlot draws two configurations, one with a metric that is always 0.
func TestPlot(t *testing.T) {
	all := [][]*whatif.Result{
		{{Config: "<spread>", Seed: 1, Placed: 10}, {Config: "<spread>", Seed: 2, Placed: 12}},
		{{Config: "pack", Seed: 1, Placed: 20, Pending: 1}, {Config: "pack", Seed: 2, Placed: 20}},
	}
	var image bytes.Buffer
	plotComparison(&image, all)
	wantSVG(t, image.String(),
		"<title>&lt;spread&gt;: 11.000 ± 12.706</title>", "<title>pack: 20.000 ± 0.000</title>", ">placed, pods</text>",
		`<rect x="140.0" y="54.8" width="96.0" height="101.2" fill="#d08040">`) // 20 of at most 23.7
}
