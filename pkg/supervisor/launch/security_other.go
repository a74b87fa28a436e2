//go:build !linux

package launch

import "github.com/minikctl/minikctl/pkg/supervisor/wire"

func noNewPrivileges(wire.Security) error { return nil }

func confine(wire.Security) error { return nil }
