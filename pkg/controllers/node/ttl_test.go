package node

import "testing"

func TestTTLStep(t *testing.T) {
	step := 0
	for _, c := range []struct{ nodes, want int }{
		{0, 0}, {100, 0}, {101, 15}, {90, 15}, {89, 0}, {500, 15}, {501, 30}, {450, 30}, {449, 15}, {1001, 60}, {2000, 60}, {2001, 300}, {1800, 300}, {1799, 60},
		{5000, 300}, {0, 0},
	} {
		step = ttlStep(step, c.nodes)
		if got := ttlSteps[step].seconds; got != c.want {
			t.Errorf("%d nodes: %d s, want %d", c.nodes, got, c.want)
		}
	}
}
