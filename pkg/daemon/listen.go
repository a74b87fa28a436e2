package daemon

import "net"

// portFree reports whether an address can be listened on right now.
func portFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}
