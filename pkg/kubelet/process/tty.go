package process

import (
	"context"
	"errors"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

func (r *Runtime) execTTY(context.Context, kubelet.ContainerID, []string, kubelet.Streams) (int, error) {
	return 0, errors.New("exec: no terminals")
}
