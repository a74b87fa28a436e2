package scheduler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"
)

// placementPlugin scores placements by their names.
type placementPlugin struct {
	scores    map[string]int64
	err       map[string]*framework.Status
	normalise func([]framework.PlacementScore) *framework.Status
}

func (*placementPlugin) Name() string { return "" }

func (p *placementPlugin) ScorePlacement(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, of *framework.PodGroupAssignments) (int64, *framework.Status) {
	return p.scores[of.Name], p.err[of.Name]
}

func (p *placementPlugin) PlacementScoreExtensions() framework.PlacementScoreExtensions { return p }

func (p *placementPlugin) NormalizePlacementScore(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, scores []framework.PlacementScore) *framework.Status {
	return p.normalise(scores)
}

// TestRunPlacementScorePlugins has the cases of Kubernetes' test of this name.
func TestRunPlacementScorePlugins(t *testing.T) {
	type scores = map[string]int64
	failed := framework.AsStatus(errors.New("error for test"))
	rising := scores{"a": 0, "b": 50, "c": 100}
	for _, x := range []struct {
		name    string
		plugins []placementPlugin // of weight 1, 2, …
		want    [][]int64         // the scores of each placement by plugin
		totals  []int64
		err     string
	}{
		{"all success", []placementPlugin{{scores: rising}, {scores: scores{"b": 50}}}, [][]int64{{0, 0}, {50, 100}, {100, 0}}, []int64{0, 150, 100}, ""},
		{"any error", []placementPlugin{{scores: rising}, {err: map[string]*framework.Status{"b": failed}}}, nil, nil, `running PlacementScore plugins: plugin "P2" failed with: error for test`},
		{"no plugins", nil, [][]int64{nil, nil, nil}, []int64{0, 0, 0}, ""},
		{"normalize success", []placementPlugin{{scores: rising}, {scores: scores{"a": 100, "b": 200, "c": 400}, normalise: func(s []framework.PlacementScore) *framework.Status {
			for i := range s {
				s[i].Score /= 4
			}
			return nil
		}}}, [][]int64{{0, 50}, {50, 100}, {100, 200}}, []int64{50, 150, 300}, ""},
		{"normalize failure", []placementPlugin{{scores: rising}, {scores: rising, normalise: func([]framework.PlacementScore) *framework.Status { return failed }}}, nil, nil,
			`running NormalizePlacementScore on PlacementScore plugins: plugin "P2" failed with: error for test`},
		{"plugin result is greater than max score", []placementPlugin{{scores: scores{"b": 101}}}, nil, nil,
			`applying score defaultWeights on PlacementScore plugins: plugin "P1" returns an invalid score 101, it should in the range of [0, 100] after normalizing`},
		{"plugin result is less than min score", []placementPlugin{{scores: scores{"b": -1}}}, nil, nil,
			`applying score defaultWeights on PlacementScore plugins: plugin "P1" returns an invalid score -1, it should in the range of [0, 100] after normalizing`},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := &profile{}
			for i := range x.plugins {
				plugin := &x.plugins[i]
				at := &site{instance: &instance{name: fmt.Sprintf("P%d", i+1)}}
				s := placementScorer{extension: extension[framework.PlacementScorePlugin]{at, plugin}, weight: int64(i + 1), normalizing: at}
				if plugin.normalise != nil {
					s.normaliser = plugin
				}
				p.placementScore = append(p.placementScore, s)
			}
			var of []*framework.PodGroupAssignments
			for _, name := range []string{"a", "b", "c"} {
				of = append(of, &framework.PodGroupAssignments{Placement: &framework.Placement{Name: name}})
			}
			got, status := p.scorePlacements(t.Context(), &tracker{}, &groupAttempt{}, of)
			if status.Message() != x.err || len(got) != len(x.want) {
				t.Fatalf("got %v, %v, want the error %q", got, status, x.err)
			}
			for i, s := range got {
				var plugins []int64
				for _, p := range s.plugins {
					plugins = append(plugins, p.Score)
				}
				if s.total != x.totals[i] || !reflect.DeepEqual(plugins, x.want[i]) {
					t.Errorf("placement %d: got %d of %v, want %d of %v", i, s.total, plugins, x.totals[i], x.want[i])
				}
			}
		})
	}
}

// TestNodesOf checks that the nodes of a placement have to be those of the snapshot.
func TestNodesOf(t *testing.T) {
	s := newSnapshot()
	for _, name := range []string{"a", "b", "c"} {
		s.setNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	nodes, _ := s.List()
	if set, err := s.nodesOf(&framework.Placement{Nodes: nodes}); set != nil || err != nil {
		t.Errorf("all nodes: got %v, %v", set, err)
	}
	set, err := s.nodesOf(&framework.Placement{Nodes: []framework.NodeInfo{nodes[2], nodes[0]}})
	if err != nil || len(set.nodes) != 2 || len(set.at) != 2 || set.at[s.nodes[2]] != 0 || set.at[s.nodes[0]] != 1 {
		t.Errorf("two nodes: got %+v, %v", set, err)
	}
	if set, err := s.nodesOf(&framework.Placement{Nodes: []framework.NodeInfo{nodes[0], nodes[0], nodes[1]}}); err != nil || len(set.nodes) != 2 || set.at[s.nodes[1]] != 1 {
		t.Errorf("a node twice: got %+v, %v", set, err)
	}
	for name, p := range map[string]*framework.Placement{
		"nil": nil, "a nil node": {Nodes: []framework.NodeInfo{nil}}, "a node without its object": {Nodes: []framework.NodeInfo{newNodeInfo()}},
	} {
		if _, err := s.nodesOf(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := s.nodesOf(&framework.Placement{Nodes: []framework.NodeInfo{nodes[0].Snapshot()}}); err == nil || err.Error() != "node a in placement is not the same instance as in the snapshot" {
		t.Errorf("a copy: %v", err)
	}
	s.removeNode("b")
	if _, err := s.nodesOf(&framework.Placement{Nodes: nodes[:1]}); err != nil {
		t.Errorf("one node: %v", err)
	}
	other := newNodeInfo()
	other.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	if _, err := s.nodesOf(&framework.Placement{Nodes: []framework.NodeInfo{other}}); err == nil || err.Error() != "node d in placement is not present in snapshot" {
		t.Errorf("another node: %v", err)
	}
}
