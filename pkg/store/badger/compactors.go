package badger

import (
	"time"
	_ "unsafe" // for go:linkname

	db "github.com/dgraph-io/badger/v4"
)

// Badger's two compactors look for work every 50 ms, which is over half of what an idle cluster costs, and there is no option for the
// period (docs/adr/0002-badger.md). Badger stops and starts them itself around operations like DB.Flatten, with these methods. They
// must not be called at the same time, nor during or after DB.Close.

//go:linkname stopCompactions github.com/dgraph-io/badger/v4.(*DB).stopCompactions
func stopCompactions(*db.DB)

//go:linkname startCompactions github.com/dgraph-io/badger/v4.(*DB).startCompactions
func startCompactions(*db.DB)

const (
	compactionPoll = time.Second // how often the store looks whether there is work for the compactors
	compactionIdle = 10          // after how many looks without work they are stopped
)

// runCompactors keeps Badger's compactors stopped while they have nothing to do, until stop is closed. They run when it is called.
func runCompactors(d *db.DB, stop <-chan struct{}) {
	tick := time.NewTicker(compactionPoll) //nolint:forbidigo // Badger does not use the cluster's clock
	defer tick.Stop()
	running := true
	for idle := 0; ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		switch work := compactionDue(d); {
		case work && !running:
			startCompactions(d)
			running, idle = true, 0
		case work || !running:
			idle = 0
		case idle < compactionIdle:
			idle++
		default:
			stopCompactions(d) // waits for a compaction that began meanwhile
			running = false
		}
	}
}

// compactionDue reports whether a level has more tables or bytes than it should.
func compactionDue(d *db.DB) bool {
	for _, l := range d.Levels() {
		if l.Score >= 1 {
			return true
		}
	}
	return false
}
