package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// authentication names the ConfigMap with the authorities and headers by which extension servers authenticate requests.
var authentication = objects.Key{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

func (b *Bootstrap) authenticationConfig(context.Context) ([]virtual, error) {
	obj, err := b.newAuthenticationConfig()
	if err != nil {
		return nil, err
	}
	return []virtual{{object: obj}}, nil
}

func (b *Bootstrap) newAuthenticationConfig() (*corev1.ConfigMap, error) {
	front, err := b.config.PKI.FrontProxyCA()
	if err != nil {
		return nil, err
	}
	data := map[string]string{"client-ca-file": string(b.config.PKI.CA()), "requestheader-client-ca-file": string(front)}
	for key, value := range map[string]string{
		"requestheader-allowed-names": pki.FrontProxyClient, "requestheader-username-headers": authn.RemoteUser, "requestheader-uid-headers": authn.RemoteUID,
		"requestheader-group-headers": authn.RemoteGroup, "requestheader-extra-headers-prefix": authn.RemoteExtraPrefix,
	} {
		list, err := json.Marshal([]string{value})
		if err != nil {
			return nil, err
		}
		data[key] = string(list)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: authentication.Namespace, Name: authentication.Name}, Data: data}, nil
}

// reconcileTrust corrects the ConfigMap when a client has written it, and creates it again when a client has deleted it.
func (b *Bootstrap) reconcileTrust(ctx context.Context) error {
	if b.rows[client.ConfigMaps.GroupResource()] == nil {
		return nil
	}
	_, err := b.config.Store.Get(ctx, cache.StoreKey(client.ConfigMaps.GroupResource(), authentication), 0)
	if errors.Is(err, store.ErrNotFound) && !b.store.of(cache.StoreKey(client.ConfigMaps.GroupResource(), authentication)).made() {
		return nil // it is virtual
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	want, err := b.newAuthenticationConfig()
	if err != nil {
		return err
	}
	obj, err := b.access.Reader.Get(ctx, client.ConfigMaps.GroupResource(), authentication)
	if apierrors.IsNotFound(err) {
		return b.ensure(ctx, client.ConfigMaps, want)
	}
	if err != nil {
		return err
	}
	have, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return nil
	}
	next := have.DeepCopy()
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	maps.Copy(next.Data, want.Data)
	if maps.Equal(next.Data, have.Data) {
		return nil
	}
	_, err = b.access.Client(Agent).Update(ctx, client.In(client.ConfigMaps, authentication), next, metav1.UpdateOptions{})
	return ignoreConflict(err)
}
