package daemon

import "testing"

func TestUnusedMemory(t *testing.T) {
	const mib = 1 << 20
	before := memoryUse{allocated: 1000 * mib}
	for name, c := range map[string]struct {
		now  memoryUse
		want bool
	}{
		"idle after a burst":   {memoryUse{allocated: 1010 * mib, live: 100 * mib, held: 250 * mib}, true},
		"idle with no spare":   {memoryUse{allocated: 1010 * mib, live: 100 * mib, held: 120 * mib}, false},
		"busy":                 {memoryUse{allocated: 9000 * mib, live: 100 * mib, held: 250 * mib}, false},
		"no collection so far": {memoryUse{allocated: 1010 * mib, held: 20 * mib}, false},
	} {
		if got := c.now.unused(before); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if m := readMemory(); m.allocated == 0 || m.held < m.live || m.held == 0 {
		t.Errorf("got %+v", m)
	}
}
