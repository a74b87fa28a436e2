package launch

import "golang.org/x/sys/unix"

// profileABI is empty: there is no other ABI of this architecture.
var profileABI []unix.SockFilter

// neverHere and capableHere are calls that only this architecture has.
var neverHere []uint32

var capableHere []struct {
	capabilities []int
	calls        []uint32
}
