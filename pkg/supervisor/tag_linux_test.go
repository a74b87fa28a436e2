package supervisor

import "testing"

// TestTagFindsEveryProcess kills a container's processes that have left its sessions and have not its environment.
func TestTagFindsEveryProcess(t *testing.T) {
	own, other := newSession(t), newSession(t)
	s, c := containerOf()
	c.status.Tag = tag(own.leader, c.spec.Folder)
	if c.status.Tag == 0 || !setTag(own.child.PID, c.status.Tag) {
		t.Fatal("no tag can be set")
	}
	if another := tag(other.leader, c.spec.Folder); another == c.status.Tag {
		t.Fatal("two processes have the same tag")
	}
	own.endLeader(t)
	s.killAll(c)
	within(t, "the end of the process", func() bool { _, child := own.alive(); return !child })
	if leader, child := other.alive(); !leader || !child {
		t.Error("processes without the tag were killed")
	}
}

func TestLimitInFile(t *testing.T) {
	own := newSession(t)
	want := tag(own.leader, "/container")
	if got, err := limitInFile(own.leader.PID); err != nil || got != want || want == 0 {
		t.Errorf("got %d, %v, want %d", got, err, want)
	}
}
