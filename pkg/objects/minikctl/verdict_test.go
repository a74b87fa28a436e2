package minikctl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func TestVerdict(t *testing.T) {
	d := &minikctl.Decision{
		Node: "good", Nodes: 5, Evaluated: 4, Feasible: 1, Filters: []string{"A", "B", "C"}, SkippedFilters: []string{"S"}, SkippedScores: []string{"T"},
		Rejected: []minikctl.Rejection{
			{Plugin: "A", Reasons: []string{"a tainted node"}, Details: []string{"k=v"}, Nodes: []string{"tainted"}, Count: 1},
			{Plugin: "C", Reasons: []string{"no room", "no port"}, Nodes: []string{"full", "busy"}, Count: 2},
		},
		Scores: []minikctl.NodeScores{{Nodes: []string{"good"}, Total: 130, Plugins: []minikctl.PluginScore{{Plugin: "X", Raw: 7, Score: 120, Weight: 3}, {Plugin: "Y", Raw: 10, Score: 10, Weight: 1}}}},
	}
	text := func(v minikctl.Verdict) string {
		out := []string{v.Outcome, v.Reason}
		if v.Total != nil {
			out = append(out, fmt.Sprint(*v.Total))
		}
		for _, p := range v.Plugins {
			s := fmt.Sprintf("%s/%s %s", p.Point, p.Plugin, p.Outcome)
			if p.Raw != nil {
				s += fmt.Sprintf(" %d %d×%d=%d", *p.Raw, *p.Normalised, p.Weight, *p.Weighted)
			}
			out = append(out, s)
		}
		return strings.Join(out, "; ")
	}
	all := *d
	all.Rejected, all.Scores, all.RejectedBy, all.Message = nil, nil, "V", "no claim"
	capped := *d
	capped.Rejected = []minikctl.Rejection{{Plugin: "A", Nodes: []string{"tainted"}, Count: 3}}
	for _, c := range []struct {
		d          *minikctl.Decision
		node, want string
	}{
		{d, "good", "Passed; ; 130; Filter/S Skipped; Filter/A Passed; Filter/B Passed; Filter/C Passed; Score/X Scored 7 40×3=120; Score/Y Scored 10 10×1=10; Score/T Skipped"},
		{d, "tainted", "Rejected; a tainted node: k=v; Filter/S Skipped; Filter/A Rejected; Filter/B NotEvaluated; Filter/C NotEvaluated"},
		{d, "busy", "Rejected; no room, no port; Filter/S Skipped; Filter/A Passed; Filter/B Passed; Filter/C Rejected"},
		{d, "late", "NotEvaluated; enough nodes passed before it was its turn (percentageOfNodesToScore), or the pod was nominated to another one; Filter/S Skipped; Filter/A NotEvaluated; Filter/B NotEvaluated; Filter/C NotEvaluated"},
		{&capped, "busy", "NotRecorded; ; Filter/S Skipped"},
		{&all, "any", "Rejected; no claim; PreFilter/V Rejected"},
	} {
		if got := text(c.d.Verdict(c.node)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.node, got, c.want)
		}
	}
	if got := fmt.Sprint(d.Listed()); got != "[busy full good tainted]" {
		t.Errorf("listed %s", got)
	}
}
