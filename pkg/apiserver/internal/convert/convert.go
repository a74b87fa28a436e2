// Package convert owns the conversion of custom resources by the webhook that their definition names. It sends the review
// and checks the response: a webhook must not change an object's identity, nor metadata other than labels and
// annotations.
package convert

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/hookclient"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects/custom"
)

const (
	// timeout bounds one call.
	timeout = 30 * time.Second
	// kept bounds the webhooks whose clients are kept, with their connections.
	kept = 100
)

// Webhooks calls conversion webhooks. It is safe for concurrent use.
type Webhooks struct {
	reader  stage.Reader
	uid     func() types.UID
	clients *lru.Cache // of *hookclient.Client, by the hash of the client configuration
}

var _ custom.Converter = (*Webhooks)(nil)

// New returns a converter that looks up Services with r. uid returns the UID of a review.
func New(r stage.Reader, uid func() types.UID) *Webhooks {
	return &Webhooks{reader: r, uid: uid, clients: lru.NewWithEvictionFunc(kept, func(_ lru.Key, client any) {
		client.(*hookclient.Client).Close()
	})}
}

// Convert converts objs to a version by the webhook of crd. It returns objects that have the version unchanged.
func (w *Webhooks) Convert(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, len(objs))
	var places []int // indexes in objs of the objects that are sent
	for i, u := range objs {
		if u.GetAPIVersion() == to.String() || empty(u) {
			out[i] = u.DeepCopy()
			out[i].SetAPIVersion(to.String())
			continue
		}
		places = append(places, i)
	}
	if len(places) == 0 {
		return out, nil
	}
	sent := make([]*unstructured.Unstructured, len(places))
	for n, i := range places {
		sent[n] = objs[i]
	}
	gvk := sent[0].GroupVersionKind()
	got, err := w.callWebhook(ctx, crd, sent, to)
	if err != nil {
		return nil, fmt.Errorf("conversion webhook for %v failed: %w", gvk, err)
	}
	if len(got) != len(sent) {
		return nil, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", gvk, len(got), len(sent))
	}
	for n, i := range places {
		u, bad := checkConverted(sent[n], got[n], to)
		if bad != nil {
			return nil, bad.in(gvk, n, len(objs) > 1)
		}
		out[i] = u
	}
	return out, nil
}

// empty reports whether an object has no fields except its kind, and so needs no conversion.
func empty(u *unstructured.Unstructured) bool {
	return len(u.Object) == 2 && u.Object["kind"] != nil && u.Object["apiVersion"] != nil
}

// client returns the client of a definition's webhook.
func (w *Webhooks) client(crd *apiextensionsv1.CustomResourceDefinition) (*hookclient.Client, error) {
	c := crd.Spec.Conversion.Webhook
	if c == nil || c.ClientConfig == nil {
		return nil, errors.New("webhook configuration must have either service or URL")
	}
	config := admissionv1.WebhookClientConfig{
		URL: c.ClientConfig.URL, CABundle: c.ClientConfig.CABundle,
		Service: (*admissionv1.ServiceReference)(c.ClientConfig.Service),
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(text)
	if known, ok := w.clients.Get(key); ok {
		return known.(*hookclient.Client), nil
	}
	made := hookclient.New(config, w.reader)
	w.clients.Add(key, made)
	return made, nil
}

// callWebhook sends a review and returns the objects of the response.
func (w *Webhooks) callWebhook(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]json.RawMessage, error) {
	client, err := w.client(crd)
	if err != nil {
		return nil, err
	}
	sent, err := newReview(crd.Spec.Conversion.Webhook.ConversionReviewVersions, w.uid(), objs, to)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	reply, err := client.Post(ctx, timeout, body)
	if err != nil {
		return nil, err
	}
	return sent.read(reply)
}
