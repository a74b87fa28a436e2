package cache

// A lane is the part of a table's log that a watch of one name, or with a hot field selector, has to read: the events of
// objects that had or have one value of the field. A thousand kubelets, each watching its own node and its pods, then
// wake and look only at what concerns them. Lanes exist while somebody watches them.
type lane struct{ field, value string }

type laneLog struct {
	lane
	log
	watchers int
}

// nameField is a lane of every table.
const nameField = "metadata.name"

// laneOf returns the lane that a selector can use.
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

// join opens the lane, or counts one more watcher. From here on it holds all that comes, until it is left or ended.
func (t *Table) join(l lane) *laneLog {
	ll := t.lanes[l]
	if ll == nil {
		ll = &laneLog{lane: l, log: newLog(t.log.last.revision, logLimit/8)}
		t.lanes[l] = ll
	}
	ll.watchers++
	return ll
}

func (t *Table) leave(ll *laneLog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ll.watchers--; ll.watchers == 0 && t.lanes[ll.lane] == ll {
		delete(t.lanes, ll.lane)
	}
}

func (t *Table) appendLanes(changes []event) {
	if len(t.lanes) == 0 {
		return
	}
	var touched map[lane][]event
	for _, ev := range changes {
		one := ev.now
		if one == nil {
			one = ev.before
		}
		touched = t.note(touched, lane{nameField, one.Key.Name}, ev)
		for field, ix := range t.indexes {
			was, is := ix.of(ev.before), ix.of(ev.now)
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

func (t *Table) endLanes(end func(*log)) {
	for l, ll := range t.lanes {
		end(&ll.log)
		delete(t.lanes, l)
	}
}
