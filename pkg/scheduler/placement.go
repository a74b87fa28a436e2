package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// placementAttempt is the result for the pods of a group in one of its placements.
type placementAttempt struct {
	*framework.Placement
	members    []*member
	status     *framework.Status
	preempting bool
	report     minikctl.PlacementAttempt
}

// feasible reports whether the group can be scheduled in the placement, now or once victims have left.
func (t *placementAttempt) feasible() bool { return t.status.IsSuccess() || t.preempting }

// tryPlacements tries a group in each placement that its profile generates, and keeps the members of the best one in which it can be
// scheduled. If there is none, it keeps those of the first. Its results are those of tryGroup.
func (s *Scheduler) tryPlacements(ctx context.Context, g *groupAttempt) (status *framework.Status, preempting bool) {
	placements, status := s.generatePlacements(ctx, g)
	if !status.IsSuccess() {
		return status, false
	}
	var tried, feasible []*placementAttempt
	for i, p := range placements {
		t := &placementAttempt{Placement: p, members: g.copyMembers()}
		if err := s.inPlacement(p, func() { t.status, t.preempting = s.tryMembers(ctx, t.members) }); err != nil {
			return framework.AsStatus(fmt.Errorf("failed to assume pod group placement: %w", err)), false
		}
		if t.status.IsError() {
			g.members = t.members
			return t.status, false
		}
		t.describe()
		tried = append(tried, t)
		switch {
		case t.feasible():
			feasible = append(feasible, t)
		case i > 0:
			t.members = nil // none of them are needed any more
		}
	}
	chosen := tried[0]
	if len(feasible) > 0 {
		if chosen, status = s.bestAttempt(ctx, g, feasible); !status.IsSuccess() {
			return status, false
		}
		chosen.report.Outcome = "Chosen"
	} else {
		chosen.status = framework.NewStatus(framework.Unschedulable,
			fmt.Sprintf("0/%d placements are available, first placement status: %v", len(tried), chosen.status.AsError()))
	}
	g.members = chosen.members
	if len(tried) > 1 || len(chosen.Nodes) < len(s.cluster.nodes) {
		g.placements = reportPlacements(tried)
	}
	return chosen.status, chosen.preempting
}

// copyMembers returns the members as they were before the group was tried.
func (g *groupAttempt) copyMembers() []*member {
	out := make([]*member, len(g.members))
	for i, m := range g.members {
		a := *m.attempt
		a.stages = slices.Clone(a.stages)
		out[i] = &member{attempt: &a}
	}
	return out
}

// inPlacement calls f while pods may be assigned to the placement's nodes only.
func (s *Scheduler) inPlacement(p *framework.Placement, f func()) error {
	cluster, memo := s.cluster, s.memo
	within, err := cluster.nodesOf(p)
	if err != nil {
		return err
	}
	if within == nil {
		f()
		return nil
	}
	cluster.within, s.memo = within, newMemo() // of evaluations of these nodes
	f()
	if s.cluster != cluster { // an abandoned call still reads the old one, about which the memo is
		s.memo = newMemo()
		return nil
	}
	cluster.within, s.memo = nil, memo
	return nil
}

// generatePlacements returns the placements in which to try a group: those of the PlacementGenerate plugin, or all nodes.
func (s *Scheduler) generatePlacements(ctx context.Context, g *groupAttempt) ([]*framework.Placement, *framework.Status) {
	nodes, _ := s.cluster.List()
	all := &framework.Placement{Nodes: nodes}
	if len(g.profile.placementGenerate) == 0 {
		return []*framework.Placement{all}, nil
	}
	plugin := g.profile.placementGenerate[0]
	var result *framework.GeneratePlacementsResult // after a failure, an abandoned call may still write these
	var status *framework.Status
	failure := s.callForGroup(ctx, g, func(ctx context.Context, t *tracker) {
		t.enter(plugin.site)
		result, status = plugin.plugin.GeneratePlacements(ctx, g.state, g, all)
		t.leave()
	})
	switch {
	case failure != nil:
		return nil, failure.status()
	case !status.IsSuccess():
		return nil, status.WithPlugin(plugin.name)
	case result == nil || len(result.Placements) == 0:
		return nil, framework.NewStatus(framework.Unschedulable, "no feasible placements found").WithPlugin(plugin.name)
	}
	return result.Placements, nil
}

// callForGroup runs a section of calls about a whole group.
func (s *Scheduler) callForGroup(ctx context.Context, g *groupAttempt, f func(context.Context, *tracker)) *pluginFailure {
	times := s.beginTimes(g.profile, false)
	failure := s.calls.do(ctx, g.profile.cooperative, func(ctx context.Context, t *tracker) {
		defer t.measure(times)()
		f(ctx, t)
	})
	a := &attempt{}
	s.endTimes(a, failure)
	g.times = append(g.times, a.times...)
	return failure
}

// bestAttempt returns the attempt whose placement has the highest score. A placement that is the only one is not scored.
func (s *Scheduler) bestAttempt(ctx context.Context, g *groupAttempt, feasible []*placementAttempt) (*placementAttempt, *framework.Status) {
	if len(feasible) == 1 {
		return feasible[0], nil
	}
	assignments := make([]*framework.PodGroupAssignments, len(feasible))
	for i, t := range feasible {
		assignments[i] = &framework.PodGroupAssignments{Placement: t.Placement}
		for _, m := range t.members {
			if m.found != "" {
				assignments[i].ProposedAssignments = append(assignments[i].ProposedAssignments, m)
			}
		}
	}
	scores, best, status := s.scorePlacements(ctx, g, assignments)
	if !status.IsSuccess() {
		return nil, status
	}
	for i, t := range feasible {
		t.report.Total, t.report.Plugins = scores[i].total, scores[i].plugins
	}
	return feasible[best], nil
}

// placementScores are the scores of a placement.
type placementScores struct {
	total   int64
	plugins []minikctl.PluginScore
}

// scorePlacements returns the scores of placements, and the best of these: one of the best ones, drawn.
func (s *Scheduler) scorePlacements(ctx context.Context, g *groupAttempt, of []*framework.PodGroupAssignments) (_ []placementScores, best int, _ *framework.Status) {
	var scores []placementScores // after a failure, an abandoned call may still write these
	var status *framework.Status
	failure := s.callForGroup(ctx, g, func(ctx context.Context, t *tracker) { scores, status = g.profile.scorePlacements(ctx, t, g, of) })
	switch {
	case failure != nil:
		return nil, 0, failure.status()
	case !status.IsSuccess():
		return nil, 0, status
	}
	var ties []int
	for i := range scores {
		if len(ties) > 0 && scores[i].total > scores[ties[0]].total {
			ties = ties[:0]
		}
		if len(ties) == 0 || scores[i].total == scores[ties[0]].total {
			ties = append(ties, i)
		}
	}
	if len(ties) > 1 {
		return scores, ties[s.random.IntN(len(ties))], nil
	}
	return scores, ties[0], nil
}

// scorePlacements returns the scores of placements: each plugin scores all of them, then each normalises its scores, and these are weighted.
func (p *profile) scorePlacements(ctx context.Context, t *tracker, g *groupAttempt, of []*framework.PodGroupAssignments) ([]placementScores, *framework.Status) {
	raw := make([][]framework.PlacementScore, len(p.placementScore))
	for k, scorer := range p.placementScore {
		raw[k] = make([]framework.PlacementScore, len(of))
		t.enter(scorer.site)
		for i, a := range of {
			score, status := scorer.plugin.ScorePlacement(ctx, g.state, g, a)
			t.step()
			if !status.IsSuccess() {
				return nil, scorer.failedFor("running PlacementScore plugins", status.AsError())
			}
			raw[k][i] = framework.PlacementScore{Placement: a.Placement, Score: score}
		}
		t.leave()
	}
	final := make([][]framework.PlacementScore, len(raw))
	for k, scorer := range p.placementScore {
		final[k] = slices.Clone(raw[k])
		if scorer.normaliser == nil {
			continue
		}
		t.enter(scorer.normalizing)
		status := scorer.normaliser.NormalizePlacementScore(ctx, g.state, g, final[k])
		t.leave()
		if !status.IsSuccess() {
			return nil, scorer.failedFor("running NormalizePlacementScore on PlacementScore plugins", status.AsError())
		}
	}
	out := make([]placementScores, len(of))
	for i := range of {
		for k, scorer := range p.placementScore {
			v := final[k][i].Score
			if v < framework.MinScore || v > framework.MaxScore {
				return nil, framework.AsStatus(fmt.Errorf("applying score defaultWeights on PlacementScore plugins: plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
					scorer.name, v, framework.MinScore, framework.MaxScore))
			}
			weighted := v * scorer.weight
			out[i].plugins = append(out[i].plugins, minikctl.PluginScore{Plugin: scorer.name, Raw: raw[k][i].Score, Score: weighted, Weight: scorer.weight})
			out[i].total += weighted
		}
	}
	return out, nil
}

// failedFor returns the status of an attempt that the plugin ended with an error.
func (s *site) failedFor(step string, err error) *framework.Status {
	return framework.AsStatus(fmt.Errorf("%s: plugin %q failed with: %w", step, s.name, err))
}

// describe sets the report of a placement that was tried.
func (t *placementAttempt) describe() {
	t.report = minikctl.PlacementAttempt{Name: t.Name, Nodes: len(t.Nodes), Outcome: "Unschedulable"}
	switch {
	case t.preempting:
		t.report.Outcome = "Preempting"
	case t.status.IsSuccess():
		t.report.Outcome = "Feasible"
	}
	for _, m := range t.members {
		switch {
		case m.status.IsSuccess() && m.found != "":
			t.report.Placed++
		case !m.status.IsSuccess() && t.report.Blocking == nil:
			t.report.Blocking = &minikctl.BlockingPod{Pod: m.info.pod.Name, Message: m.message}
		}
	}
}

// reportPlacements returns the reports of attempts, feasible ones first, and of these the best.
func reportPlacements(tried []*placementAttempt) []minikctl.PlacementAttempt {
	rank := func(p minikctl.PlacementAttempt) int {
		return slices.Index([]string{"Chosen", "Feasible", "Preempting", "Unschedulable"}, p.Outcome)
	}
	out := make([]minikctl.PlacementAttempt, len(tried))
	for i, t := range tried {
		out[i] = t.report
	}
	slices.SortStableFunc(out, func(a, b minikctl.PlacementAttempt) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Total, a.Total))
	})
	return out[:min(len(out), maxListed)]
}
