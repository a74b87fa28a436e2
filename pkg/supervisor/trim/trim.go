// Package trim gives back the pages of the program's file that only its start has touched: two thirds of what a small
// process of a big program shows as its memory.
package trim

import "time"

// settled is when a process has done what there was to do at its start.
const settled = 2 * time.Second

// Later gives the pages back once the process has started.
func Later() { time.AfterFunc(settled, Now) }
