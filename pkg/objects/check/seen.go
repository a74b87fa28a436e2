package check

import "slices"

// few is the number of values that a Seen searches linearly.
const few = 8

// Seen finds duplicates in a list. The zero value has seen nothing. A few values cost no memory, and many take linear
// time.
type Seen[T comparable] struct {
	some [few]T
	n    int // number of values in some
	all  map[T]struct{}
}

// SeenOf returns a Seen that has seen the values.
func SeenOf[T comparable](values []T) *Seen[T] {
	s := &Seen[T]{}
	for _, v := range values {
		s.Again(v)
	}
	return s
}

// Has reports whether v was seen; a nil Seen has seen nothing.
func (s *Seen[T]) Has(v T) bool {
	if s == nil {
		return false
	}
	if s.all == nil {
		return slices.Contains(s.some[:s.n], v)
	}
	_, ok := s.all[v]
	return ok
}

// Again reports whether v was seen before, and adds it.
func (s *Seen[T]) Again(v T) bool {
	switch {
	case s.Has(v):
		return true
	case s.all != nil:
		s.all[v] = struct{}{}
	case s.n < few:
		s.some[s.n] = v
		s.n++
	default:
		s.all = make(map[T]struct{}, 2*few)
		for _, o := range s.some {
			s.all[o] = struct{}{}
		}
		s.all[v] = struct{}{}
	}
	return false
}
