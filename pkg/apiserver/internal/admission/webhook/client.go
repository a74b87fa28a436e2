package webhook

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/hookclient"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Clients holds the HTTP clients of webhooks. Webhooks with the same clientConfig share one, and keep its connections over a change of
// the configurations.
type Clients struct {
	reader stage.Reader

	mu    sync.Mutex
	known clients
}

// NewClients returns clients that look up Services with r.
func NewClients(r stage.Reader) *Clients {
	return &Clients{reader: r}
}

// clients maps the digest of a clientConfig to its client.
type clients map[[sha256.Size]byte]*hookclient.Client

// client returns the client of a clientConfig and adds it to used.
func (c *Clients) client(cfg admissionv1.WebhookClientConfig, used clients) *hookclient.Client {
	text, _ := json.Marshal(cfg) // cannot fail: it has strings and bytes only
	key := sha256.Sum256(text)
	for _, m := range []clients{used, c.known} {
		if known, ok := m[key]; ok {
			used[key] = known
			return known
		}
	}
	used[key] = hookclient.New(cfg, c.reader)
	return used[key]
}

// keep closes the clients that are not in used.
func (c *Clients) keep(used clients) {
	for key, old := range c.known {
		if _, ok := used[key]; !ok {
			old.Close()
		}
	}
	c.known = used
}
