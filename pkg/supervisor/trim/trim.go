// Package trim releases resident pages of the program's file that were only needed while the process started. They are
// two thirds of the resident memory of a small process of a large program.
package trim

import "time"

// startTime is the maximum time that a process needs to start.
const startTime = 2 * time.Second

// Later releases the pages once the process has started.
func Later() { time.AfterFunc(startTime, Now) }
