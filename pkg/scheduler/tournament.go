package scheduler

// tournament keeps the maximum of many scores while single scores change: a binary tree over the nodes, in which each
// position holds the best score below it and the number of players with that score.
type tournament struct {
	leaves int // a power of two
	best   []int64
	count  []int32 // 0: no player below it takes part
}

// newTournament returns a tournament of n players, none of which takes part yet.
func newTournament(n int) tournament {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	return tournament{leaves: leaves, best: make([]int64, 2*leaves), count: make([]int32, 2*leaves)}
}

// seed sets a player's score without updating the positions above; build follows when all are seeded.
func (t *tournament) seed(i int, score int64, in bool) {
	t.best[t.leaves+i], t.count[t.leaves+i] = score, 0
	if in {
		t.count[t.leaves+i] = 1
	}
}

func (t *tournament) build() {
	for at := t.leaves - 1; at >= 1; at-- {
		t.update(at)
	}
}

// set changes one player.
func (t *tournament) set(i int, score int64, in bool) {
	t.seed(i, score, in)
	for at := (t.leaves + i) / 2; at >= 1; at /= 2 {
		t.update(at)
	}
}

func (t *tournament) update(at int) {
	l, r := 2*at, 2*at+1
	switch {
	case t.count[r] == 0 || t.count[l] > 0 && t.best[l] > t.best[r]:
		t.best[at], t.count[at] = t.best[l], t.count[l]
	case t.count[l] == 0 || t.best[r] > t.best[l]:
		t.best[at], t.count[at] = t.best[r], t.count[r]
	default:
		t.best[at], t.count[at] = t.best[l], t.count[l]+t.count[r]
	}
}

// ties returns the number of players with the best score; 0 when none takes part.
func (t *tournament) ties() int { return int(t.count[1]) }

// winner returns the k-th of the players with the best score.
func (t *tournament) winner(k int) int {
	at := 1
	for at < t.leaves {
		at *= 2
		if t.count[at] == 0 || t.count[at+1] > 0 && t.best[at+1] > t.best[at] {
			at++
		} else if (t.count[at+1] == 0 || t.best[at] == t.best[at+1]) && k >= int(t.count[at]) {
			k -= int(t.count[at])
			at++
		}
	}
	return at - t.leaves
}

// top returns up to n players, best first; equal ones in their order.
func (t *tournament) top(n int) []int {
	if t.count[1] == 0 {
		return nil
	}
	out := make([]int, 0, min(n, int(t.count[1])))
	open := append(make([]int, 0, 2*cap(out)+1), 1) // positions whose best player is not in out yet, by best score, then from left to right
	for len(open) > 0 && len(out) < n {
		at := open[0]
		open = open[1:]
		if at >= t.leaves {
			out = append(out, at-t.leaves)
			continue
		}
		for _, child := range [2]int{2 * at, 2*at + 1} {
			if t.count[child] > 0 {
				open = t.queue(open, child, n-len(out))
			}
		}
	}
	return out
}

// queue inserts a position into the sorted list open, which keeps at most most positions.
func (t *tournament) queue(open []int, at, most int) []int {
	i := len(open)
	for i > 0 && t.before(at, open[i-1]) {
		i--
	}
	if i >= most {
		return open
	}
	open = append(open, 0)
	copy(open[i+1:], open[i:])
	open[i] = at
	return open[:min(len(open), most)]
}

// before reports whether position a is opened before position b: a better score, or an equal one further left.
func (t *tournament) before(a, b int) bool {
	if t.best[a] != t.best[b] {
		return t.best[a] > t.best[b]
	}
	return t.first(a) < t.first(b)
}

// first returns the leftmost leaf below a position.
func (t *tournament) first(at int) int {
	for at < t.leaves {
		at *= 2
	}
	return at
}
