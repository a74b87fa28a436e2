package pki

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Access describes a client of a cluster: the names of its entries in a kubeconfig, the URL and the credentials.
type Access struct {
	Server  string // URL
	CA      []byte
	Cluster string
	Context string
	User    string
	Client  Pair
}

// Kubeconfig returns a kubeconfig with one cluster, one user and one context, the current one.
func Kubeconfig(a Access) *api.Config {
	c := api.NewConfig()
	c.Clusters[a.Cluster] = &api.Cluster{Server: a.Server, CertificateAuthorityData: a.CA}
	c.AuthInfos[a.User] = &api.AuthInfo{ClientCertificateData: a.Client.Cert, ClientKeyData: a.Client.Key}
	c.Contexts[a.Context] = &api.Context{Cluster: a.Cluster, AuthInfo: a.User}
	c.CurrentContext = a.Context
	return c
}

// WriteKubeconfig writes c to a file atomically. Only the owner may read it.
func WriteKubeconfig(path string, c *api.Config) error {
	raw, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the directory of the kubeconfig: %w", err)
	}
	return writeFile(path, raw)
}
