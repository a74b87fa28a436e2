// Package upstream owns what libraries written for client-go want of a client.Client: a clientset, a REST configuration
// and informers. The clientset's requests are served in process; the informers list and watch through the Client itself
// and share its objects. Nothing of it costs anything until it is asked for.
package upstream

import (
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
)

// Bridge is client-go's view of a Client. It is safe for concurrent use.
type Bridge struct {
	client    client.Client
	config    func() *rest.Config
	clientset func() kubernetes.Interface
	informers func() informers.SharedInformerFactory
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
		return kubernetes.NewForConfigOrDie(cfg) // the configuration is ours and right
	})
	b.informers = sync.OnceValue(func() informers.SharedInformerFactory { return newFactory(c, b.clientset()) })
	return b
}

// ClientSet returns a clientset whose requests are made through the Client. It knows resources, not discovery or logs.
func (b *Bridge) ClientSet() kubernetes.Interface { return b.clientset() }

// Informers returns a factory whose informers are on the Client. Whoever asks it for informers starts it, as usual.
func (b *Bridge) Informers() informers.SharedInformerFactory { return b.informers() }

// Config returns a configuration for clients of the library user's own making. It must not be changed.
func (b *Bridge) Config() *rest.Config { return b.config() }
