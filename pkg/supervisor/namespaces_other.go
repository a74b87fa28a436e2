//go:build !linux

package supervisor

import (
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// namespaces is how containers get a mount namespace: there are none here.
type namespaces int

const noNamespaces namespaces = 0

func possibleNamespaces() []namespaces { return nil }

func (namespaces) start(*syscall.SysProcAttr, *wire.Spec) {}
