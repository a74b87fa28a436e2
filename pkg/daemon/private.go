package daemon

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/minikctl/minikctl/pkg/autostart"
)

// checkSocket refuses a socket whose directory other users can write to. Any user can create a directory below /tmp, and would read
// the requests that commands send to a socket there.
func checkSocket(p Paths) error {
	err := autostart.CheckPrivate(filepath.Dir(p.Socket))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
