package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Access says how a client reaches a cluster: the names of its entries in a kubeconfig and who it is.
type Access struct {
	Server  string // URL
	CA      []byte
	Cluster string
	Context string
	User    string
	Client  Pair
}

// Kubeconfig returns a kubeconfig with one cluster, user and context, which is the current one.
func Kubeconfig(a Access) *api.Config {
	c := api.NewConfig()
	c.Clusters[a.Cluster] = &api.Cluster{Server: a.Server, CertificateAuthorityData: a.CA}
	c.AuthInfos[a.User] = &api.AuthInfo{ClientCertificateData: a.Client.Cert, ClientKeyData: a.Client.Key}
	c.Contexts[a.Context] = &api.Context{Cluster: a.Cluster, AuthInfo: a.User}
	c.CurrentContext = a.Context
	return c
}

// WriteKubeconfig writes c to a file, in one step and for the owner's eyes only.
func WriteKubeconfig(path string, c *api.Config) error {
	raw, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the kubeconfig: %w", err)
	}
	return writeFile(path, raw)
}

// MergeKubeconfig adds c's entries to a kubeconfig file, or makes the file. Other entries and extensions stay as they
// are. c's context becomes the current one when there is none, or when current is set.
func MergeKubeconfig(path string, c *api.Config, current bool) error {
	path, into, err := loadKubeconfig(path)
	if err != nil {
		return err
	}
	for name, e := range c.Clusters {
		into.Clusters[name] = e
	}
	for name, e := range c.AuthInfos {
		into.AuthInfos[name] = e
	}
	for name, e := range c.Contexts {
		if old, ok := into.Contexts[name]; ok && e.Namespace == "" {
			e = e.DeepCopy()
			e.Namespace = old.Namespace // what the user chose with "config set-context --namespace"
		}
		into.Contexts[name] = e
	}
	if current || into.CurrentContext == "" {
		into.CurrentContext = c.CurrentContext
	}
	return WriteKubeconfig(path, into)
}

// RemoveKubeconfig takes c's entries out of a kubeconfig file again. A context that somebody made join other entries
// stays, and so do a cluster and a user that another context still uses. A file that does not exist is fine.
func RemoveKubeconfig(path string, c *api.Config) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	path, from, err := loadKubeconfig(path)
	if err != nil {
		return err
	}
	changed := false
	for name, mine := range c.Contexts {
		theirs, ok := from.Contexts[name]
		if !ok || theirs.Cluster != mine.Cluster || theirs.AuthInfo != mine.AuthInfo {
			continue
		}
		delete(from.Contexts, name)
		if from.CurrentContext == name {
			from.CurrentContext = ""
		}
		changed = true
	}
	for name := range c.Clusters {
		if _, ok := from.Clusters[name]; ok && !usesCluster(from, name) {
			delete(from.Clusters, name)
			changed = true
		}
	}
	for name := range c.AuthInfos {
		if _, ok := from.AuthInfos[name]; ok && !usesUser(from, name) {
			delete(from.AuthInfos, name)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return WriteKubeconfig(path, from)
}

func usesCluster(c *api.Config, name string) bool {
	for _, ctx := range c.Contexts {
		if ctx.Cluster == name {
			return true
		}
	}
	return false
}

func usesUser(c *api.Config, name string) bool {
	for _, ctx := range c.Contexts {
		if ctx.AuthInfo == name {
			return true
		}
	}
	return false
}

// loadKubeconfig also follows symbolic links, so that a linked kubeconfig stays a link.
func loadKubeconfig(path string) (string, *api.Config, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, api.NewConfig(), nil
	}
	if err != nil {
		return path, nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	c, err := clientcmd.Load(raw)
	if err != nil {
		return path, nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	return path, c, nil
}
