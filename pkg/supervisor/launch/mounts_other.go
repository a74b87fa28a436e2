//go:build !linux

package launch

import (
	"errors"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

var errNoNamespaces = errors.New("this system has no mount namespaces")

func mount(string, []wire.Mount) error { return errNoNamespaces }

func setHostname(string) error { return errNoNamespaces }

func dropAmbient() error { return nil }
