package apiserver

import (
	"context"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// authentication names the ConfigMap from which extension servers learn whom to believe who makes a request.
var authentication = objects.Key{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

// publishAuthentication makes or mends that ConfigMap. It is called when somebody may look at it: the front proxy, whose
// keys it needs, is of no use before.
func (s *Server) publishAuthentication(ctx context.Context) error {
	s.furnishing.Lock()
	defer s.furnishing.Unlock()
	obj, err := s.engine.Reader().Get(ctx, client.ConfigMaps.GroupResource(), authentication)
	if err == nil && s.trustTold {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	data, err := s.trust()
	if err != nil {
		return err
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: authentication.Namespace, Name: authentication.Name}, Data: data}
	c, to := s.Client(self, systemAgent), client.In(client.ConfigMaps, authentication)
	if old, ok := obj.(*corev1.ConfigMap); ok {
		next = old.DeepCopy()
		maps.Copy(next.Data, data)
		if !maps.Equal(next.Data, old.Data) {
			_, err = c.Update(ctx, to, next, metav1.UpdateOptions{})
		}
	} else {
		to.Name = ""
		_, err = c.Create(ctx, to, next, metav1.CreateOptions{})
	}
	if err = unlessMeanwhile(err); err == nil {
		s.trustTold = true
	}
	return err
}

// trust is what extension servers are told.
func (s *Server) trust() (map[string]string, error) {
	front, err := s.pki.FrontProxyCA()
	if err != nil {
		return nil, err
	}
	out := map[string]string{"client-ca-file": string(s.pki.CA()), "requestheader-client-ca-file": string(front)}
	for key, value := range map[string]string{
		"requestheader-allowed-names": pki.FrontProxyClient, "requestheader-username-headers": authn.RemoteUser, "requestheader-uid-headers": authn.RemoteUID,
		"requestheader-group-headers": authn.RemoteGroup, "requestheader-extra-headers-prefix": authn.RemoteExtraPrefix,
	} {
		list, err := json.Marshal([]string{value})
		if err != nil {
			return nil, err
		}
		out[key] = string(list)
	}
	return out, nil
}
