//go:build !linux

package supervisor

import "github.com/minikctl/minikctl/pkg/supervisor/wire"

// There are no tags here: a limit of another process can't be read.

func tag(wire.Process, string) uint64 { return 0 }

func setTag(int, uint64) bool { return false }

func readTag(int) uint64 { return 0 }

// search finds nothing.
type search struct{}

func newSearch(uint64) search { return search{} }

func (search) scan() (found int, missed bool) { return 0, false }
