//go:build !linux

package supervisor

import "github.com/minikctl/minikctl/pkg/supervisor/wire"

// There are no tags here: a limit of another process can't be read.

func tag(wire.Process, string) uint64 { return 0 }

func setTag(int, uint64) bool { return false }

func hasTag(int, uint64) bool { return false }

func killTagged(uint64, map[wire.Process]struct{}) (found int, missed bool) { return 0, false }
