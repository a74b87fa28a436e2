package batch

import (
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// interval is a range of completion indexes, first and last included.
type interval struct{ first, last int }

// indexes is a set of completion indexes: intervals in ascending order, with a gap between any two of them.
type indexes []interval

// parseIndexes parses a set such as "0,1,3-7", the form of a Job's status and of success policies. It leaves out indexes from
// completions on, and parts that are no interval.
func parseIndexes(text string, completions int) indexes {
	var out indexes
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil {
			continue
		}
		if first >= completions {
			break
		}
		last = min(last, completions-1)
		if n := len(out); n > 0 && out[n-1].last == first-1 {
			out[n-1].last = last
		} else {
			out = append(out, interval{first, last})
		}
	}
	return out
}

// indexesOf returns the set of the given indexes.
func indexesOf(list ...int) indexes {
	slices.Sort(list)
	out := make(indexes, len(list))
	for i, x := range list {
		out[i] = interval{x, x}
	}
	return indexes(nil).union(out)
}

// String returns the form that parseIndexes reads. Two neighbours are written as "1,2", three as "1-3".
func (x indexes) String() string {
	var b strings.Builder
	for _, iv := range x {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(iv.first))
		switch iv.last - iv.first {
		case 0:
			continue
		case 1:
			b.WriteByte(',')
		default:
			b.WriteByte('-')
		}
		b.WriteString(strconv.Itoa(iv.last))
	}
	return b.String()
}

func (x indexes) count() int {
	n := 0
	for _, iv := range x {
		n += iv.last - iv.first + 1
	}
	return n
}

func (x indexes) has(i int) bool {
	at, _ := slices.BinarySearchFunc(x, i, func(iv interval, i int) int { return iv.last - i })
	return at < len(x) && x[at].first <= i
}

// union returns the indexes that are in x, in y, or in both.
func (x indexes) union(y indexes) indexes {
	var out indexes
	for len(x) > 0 || len(y) > 0 {
		from := &x
		if len(x) == 0 || len(y) > 0 && y[0].first < x[0].first {
			from = &y
		}
		next := (*from)[0]
		*from = (*from)[1:]
		if n := len(out); n > 0 && next.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, next.last)
		} else {
			out = append(out, next)
		}
	}
	return out
}

// common returns how many indexes are in both sets.
func (x indexes) common(y indexes) int {
	n := 0
	for len(x) > 0 && len(y) > 0 {
		n += max(0, min(x[0].last, y[0].last)-max(x[0].first, y[0].first)+1)
		if x[0].last < y[0].last {
			x = x[1:]
		} else {
			y = y[1:]
		}
	}
	return n
}

// missing returns the lowest indexes below completions that are not in x, at most n of them.
func (x indexes) missing(n, completions int) []int {
	var out []int
	next := 0
	for _, iv := range append(slices.Clone(x), interval{completions, completions}) {
		for ; next < min(iv.first, completions) && len(out) < n; next++ {
			out = append(out, next)
		}
		next = max(next, iv.last+1)
	}
	return out
}

// noIndex is the completion index of a pod without a valid one.
const noIndex = -1

// completionIndex returns the completion index that a pod's annotation holds, or noIndex.
func completionIndex(p *corev1.Pod) int {
	i, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 {
		return noIndex
	}
	return i
}

// podIndexes returns the completion indexes of pods.
func podIndexes(pods []*corev1.Pod) indexes {
	var list []int
	for _, p := range pods {
		if i := completionIndex(p); i != noIndex {
			list = append(list, i)
		}
	}
	return indexesOf(list...)
}
