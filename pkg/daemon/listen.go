package daemon

import (
	"fmt"
	"net"
)

// portFree reports whether the address is free to listen on.
func portFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// checkListen refuses an address without a port that exists.
func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen: %q is not HOST:PORT", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("listen: the port %q is not a number from 0 to 65535", port)
	}
	return nil
}
