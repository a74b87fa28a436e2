package direct_test

import (
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
)

func TestClient(t *testing.T) {
	env := apiservertest.New(t)
	clienttest.Run(t, func(*testing.T) client.Client { return env.Client("suite") })
}
