//go:build !linux

package launch

import (
	"errors"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

var errNoNamespaces = errors.New("this system has no mount namespaces")

func mount(*wire.Launch) error { return errNoNamespaces }

func setHostname(string) error { return errNoNamespaces }
