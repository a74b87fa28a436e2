//go:build !linux || !(amd64 || arm64)

package launch

import (
	"errors"
	"runtime"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// filter reports to the supervisor that there are no filters here.
func filter(conn *wire.Conn, f wire.Filter) error {
	if f == wire.NoFilter {
		return nil
	}
	return conn.Send(wire.Launched{Refused: "not available on " + runtime.GOOS + "/" + runtime.GOARCH})
}

func denyCalls(*uint64) error {
	return errors.New("no system call filters on " + runtime.GOOS + "/" + runtime.GOARCH)
}
