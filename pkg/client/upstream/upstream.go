// Package upstream adapts a client.Client to client-go: it provides a clientset, a REST configuration and informers for
// libraries. The clientset's requests are served in process. The informers list and watch through the Client and share its
// objects. Each part is created at its first use.
package upstream

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
)

// Bridge provides client-go's interfaces for a Client. It is safe for concurrent use.
type Bridge struct {
	client    client.Client
	config    func() *rest.Config
	clientset func() kubernetes.Interface
	informers func() informers.SharedInformerFactory
	observe   func(resource schema.GroupVersionResource, old, new any)
}

// New returns a bridge to c.
func New(c client.Client) *Bridge {
	b := &Bridge{client: c}
	b.config = sync.OnceValue(func() *rest.Config {
		return &rest.Config{Host: "http://in-process.invalid", Transport: client.Transport(c), QPS: -1}
	})
	b.clientset = sync.OnceValue(func() kubernetes.Interface {
		cfg := rest.CopyConfig(b.config())
		cfg.ContentType = "application/vnd.kubernetes.protobuf"
		cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		return kubernetes.NewForConfigOrDie(cfg) // the configuration is valid
	})
	b.informers = sync.OnceValue(func() informers.SharedInformerFactory { return newFactory(c, b.clientset(), b.observe) })
	return b
}

// Observe has f called after an informer of the bridge has applied a change of an object, but not for the objects of its first list. old is nil
// for a new object, new for a deleted one. f must not block. Observe is called before Informers.
func (b *Bridge) Observe(f func(resource schema.GroupVersionResource, old, new any)) { b.observe = f }

// ClientSet returns a clientset whose requests go through the Client. It supports resources, not discovery or logs.
func (b *Bridge) ClientSet() kubernetes.Interface { return b.clientset() }

// Informers returns a factory of informers that use the Client. The caller starts it, as with client-go's.
func (b *Bridge) Informers() informers.SharedInformerFactory { return b.informers() }

// Config returns a configuration for other clients. It must not be changed.
func (b *Bridge) Config() *rest.Config { return b.config() }
