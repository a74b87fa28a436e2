package daemon

import "net"

// portFree reports whether the address is free to listen on.
func portFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}
