package scheduler

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTournament compares a tournament with a plain search while players change.
func TestTournament(t *testing.T) {
	for _, players := range []int{1, 2, 3, 7, 64, 100} {
		t.Run(fmt.Sprint(players), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(players), 1))
			tree := newTournament(players)
			score, in := make([]int64, players), make([]bool, players)
			for range 500 {
				i := r.IntN(players)
				score[i], in[i] = int64(r.IntN(5)), r.IntN(3) > 0
				tree.set(i, score[i], in[i])
				compareTournament(t, &tree, score, in, r)
			}
		})
	}
}

func compareTournament(t *testing.T, tree *tournament, score []int64, in []bool, r *rand.Rand) {
	t.Helper()
	var order []int
	for i := range in {
		if in[i] {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	ties := 0
	for ties < len(order) && score[order[ties]] == score[order[0]] {
		ties++
	}
	if got := tree.ties(); got != ties {
		t.Fatalf("%d share the best score, want %d", got, ties)
	}
	for k := range ties {
		if got := tree.winner(k); got != order[k] {
			t.Fatalf("winner %d is %d, want %d of %v", k, got, order[k], order)
		}
	}
	n := r.IntN(len(in) + 2)
	if got, want := tree.top(n), order[:min(n, len(order))]; !slices.Equal(got, want) {
		t.Fatalf("the best %d are %v, want %v", n, got, want)
	}
}
