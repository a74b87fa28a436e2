package bindings

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// panickingClient is a client whose creates panic.
type panickingClient struct{ client.Client }

func (panickingClient) Create(context.Context, client.Target, runtime.Object, metav1.CreateOptions) (runtime.Object, error) {
	panic("a webhook's answer")
}

// A panic in a binding is one of the request, which the server survives.
func TestPanicInBinding(t *testing.T) {
	b := Backend{Client: func(user.Info, string) client.Client { return panickingClient{} }, Concurrent: 2}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "a webhook's answer") {
			t.Errorf("panic %q", got)
		}
	}()
	req := &verbs.Request{}
	req.User = &user.DefaultInfo{Name: "u"}
	_, err := b.Create(t.Context(), req, &minikctl.BindingBatch{Bindings: make([]minikctl.PodBinding, 3)}, &metav1.CreateOptions{})
	t.Errorf("no panic, error %v", err)
}
