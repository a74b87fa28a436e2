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

// TestPlotReplay draws two runs over time, one of an extended resource.
func TestPlotReplay(t *testing.T) {
	state := func(cpu float64) whatif.State {
		return whatif.State{CPU: cpu, Extended: map[string]float64{"example.com/gpu": cpu / 2}}
	}
	all := [][]*whatif.Result{
		{{Config: "spread", Workload: "<load>", Seed: 3, State: state(0.5), Samples: []whatif.Sample{{Time: 30, State: state(0.25)}, {Time: 60, State: state(0.5)}}}},
		{{Config: "pack", Workload: "<load>", Seed: 3, Samples: []whatif.Sample{{Time: 60, Pending: 7}}}},
	}
	var image bytes.Buffer
	plotReplay(&image, all)
	wantSVG(t, image.String(),
		`<path d="M20 96.0H140.0V36.0H260.0" stroke="#4878a8" fill="none"><title>&lt;load&gt; spread, seed 3</title></path>`, // 25 % and 50 % of CPU
		">example.com/gpu, %</text>", ">at most 7.0</text>", ">1m0s</text>", ">throughput, pods/s</text>", ">&lt;load&gt; pack</text>")
}
