//go:build !linux

package process

import (
	"context"
	"fmt"
	"runtime"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// execTTY is Exec with a terminal, of which there are none here.
func (r *Runtime) execTTY(context.Context, kubelet.ContainerID, []string, kubelet.Streams) (int, error) {
	return 0, fmt.Errorf("exec: the process runtime has no terminals on %s", runtime.GOOS)
}
