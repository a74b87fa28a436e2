//go:build !linux || !(amd64 || arm64)

package launch

import (
	"runtime"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// filter tells the supervisor that there is none here.
func filter(conn *wire.Conn, f wire.Filter, _ bool) error {
	if f == wire.NoFilter {
		return nil
	}
	return conn.Send(wire.Launched{Refused: "not available on " + runtime.GOOS + "/" + runtime.GOARCH})
}
