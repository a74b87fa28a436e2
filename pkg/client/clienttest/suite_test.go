package clienttest_test

import (
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
)

// TestDirect and TestHTTP run the suite on a whole server, in its process and over HTTP.
func TestDirect(t *testing.T) {
	env := apiservertest.New(t)
	clienttest.Run(t, func(t *testing.T) client.Client { return env.Client("suite") })
}

func TestHTTP(t *testing.T) {
	env := apiservertest.New(t)
	clienttest.Run(t, func(t *testing.T) client.Client {
		c, err := client.HTTP(env.AdminConfig, "suite")
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}
