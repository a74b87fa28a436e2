package cache

import "github.com/minikctl/minikctl/pkg/store/changelog"

// A lane is a part of a table's log: the changes of objects with one name, or with one value of an indexed field,
// before or after the change. A watch that selects this name or value reads only the lane, so that a change on one node
// wakes one kubelet instead of a thousand. (Kubernetes' Cacher finds the watchers of a change by triggers, of pods the field spec.nodeName.) A lane
// exists while a watch reads it.
type lane struct{ field, value string }

type laneLog struct {
	lane
	*changes
	watchers int
}

// nameField is the field by which every table has lanes.
const nameField = "metadata.name"

// laneOf returns the lane that has all changes for a selector.
func (t *Table) laneOf(s *Selector) (lane, bool) {
	if name, ok := s.exact(nameField); ok {
		return lane{nameField, name}, true
	}
	for field := range t.indexes {
		if value, ok := s.exact(field); ok {
			return lane{field, value}, true
		}
	}
	return lane{}, false
}

// join opens the lane, or adds a watcher to it. The lane has all changes after the newest one in the table's log.
func (t *Table) join(l lane) *laneLog {
	ll := t.lanes[l]
	if ll == nil {
		// The table's log accounts for the items.
		ll = &laneLog{lane: l, changes: changelog.New(t.cache.budget, changelog.Accounting[change]{}, t.log.End().Revision)}
		t.lanes[l] = ll
	}
	ll.watchers++
	return ll
}

func (t *Table) leave(ll *laneLog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ll.watchers--; ll.watchers > 0 {
		return
	}
	ll.Drop()
	if t.lanes[ll.lane] == ll {
		delete(t.lanes, ll.lane)
	}
}

func (t *Table) appendLanes(all []change) {
	if len(t.lanes) == 0 {
		return
	}
	var touched map[lane][]change
	for _, c := range all {
		if c.lost != nil { // the value cannot be decoded, so its fields are unknown
			for l := range t.lanes {
				touched = t.collect(touched, l, c)
			}
			continue
		}
		one := c.now
		if one == nil {
			one = c.before
		}
		touched = t.collect(touched, lane{nameField, one.Key.Name}, c)
		for field, ix := range t.indexes {
			was, is := ix.of(c.before), ix.of(c.now)
			touched = t.collect(touched, lane{field, is}, c)
			if was != is {
				touched = t.collect(touched, lane{field, was}, c)
			}
		}
	}
	for l, some := range touched {
		t.lanes[l].Append(some[len(some)-1].revision, some)
	}
}

// collect adds a change to those of a lane, if the lane exists.
func (t *Table) collect(touched map[lane][]change, l lane, c change) map[lane][]change {
	if t.lanes[l] == nil {
		return touched
	}
	if touched == nil {
		touched = map[lane][]change{}
	}
	touched[l] = append(touched[l], c)
	return touched
}
