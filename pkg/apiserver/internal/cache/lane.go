package cache

// A lane is the part of a table's log that a watch with a hot field selector has to read: the events of objects that
// had or have one value of the field. A thousand kubelets, each watching its own node's pods, then wake and look only at
// what concerns them. Lanes exist while somebody watches them.
type lane struct{ field, value string }

type laneLog struct {
	log
	watchers int
}

// laneOf returns the lane that a selector can use.
func (t *Table) laneOf(s *Selector) (lane, bool) {
	for field := range t.indexes {
		if value, ok := s.exact(field); ok {
			return lane{field, value}, true
		}
	}
	return lane{}, false
}

// join opens the lane (or counts one more watcher) and returns its end: from here on it holds all that comes.
func (t *Table) join(l lane) *segment {
	ll := t.lanes[l]
	if ll == nil {
		ll = &laneLog{log: newLog(t.log.last.revision, logLimit/8)}
		t.lanes[l] = ll
	}
	ll.watchers++
	return ll.last
}

func (t *Table) leave(l lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ll := t.lanes[l]; ll != nil {
		if ll.watchers--; ll.watchers == 0 {
			delete(t.lanes, l)
		}
	}
}

func (t *Table) appendLanes(changes []event) {
	if len(t.lanes) == 0 {
		return
	}
	var touched map[lane][]event
	for field, ix := range t.indexes {
		for _, ev := range changes {
			var was, is string
			if ev.before != nil && ev.before.object != nil {
				was = ix.value(ev.before.object)
			}
			if ev.now != nil && ev.now.object != nil {
				is = ix.value(ev.now.object)
			}
			touched = t.note(touched, lane{field, is}, ev)
			if was != is {
				touched = t.note(touched, lane{field, was}, ev)
			}
		}
	}
	for l, events := range touched {
		t.lanes[l].append(events)
	}
}

func (t *Table) note(touched map[lane][]event, l lane, ev event) map[lane][]event {
	if t.lanes[l] == nil {
		return touched
	}
	if touched == nil {
		touched = map[lane][]event{}
	}
	touched[l] = append(touched[l], ev)
	return touched
}

func (t *Table) endLanes() {
	for l, ll := range t.lanes {
		ll.end()
		delete(t.lanes, l)
	}
}
