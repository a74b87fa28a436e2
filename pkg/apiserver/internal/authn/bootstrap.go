package authn

import (
	"context"
	"crypto/subtle"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects"
)

// bootstrapToken matches a token: an id and a secret. The Secret bootstrap-token-ID in kube-system holds both.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
var bootstrapToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`) })

const (
	bootstrapName  = "bootstrap-token-"
	bootstrapUser  = "system:bootstrap:"
	bootstrapGroup = "system:bootstrappers"
)

var bootstrapExtra = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)
})

// bootstrap authenticates a joining node by a bootstrap token, which a Secret holds.
func (t tokenAuthenticator) bootstrap(ctx context.Context, token string) (user.Info, bool) {
	parts := bootstrapToken().FindStringSubmatch(token)
	if parts == nil || t.reader == nil {
		return nil, false
	}
	key := objects.Key{Namespace: metav1.NamespaceSystem, Name: bootstrapName + parts[1]}
	obj, err := t.reader.Get(ctx, schema.GroupResource{Resource: "secrets"}, key)
	if err != nil {
		return nil, false
	}
	s, ok := obj.(*corev1.Secret)
	if !ok || s.Type != corev1.SecretTypeBootstrapToken || s.DeletionTimestamp != nil {
		return nil, false
	}
	value := func(name string) string { return string(s.Data[name]) }
	if subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(parts[2])) != 1 || value("token-id") != parts[1] ||
		value("usage-bootstrap-authentication") != "true" || t.expired(value("expiration")) {
		return nil, false
	}
	groups := []string{bootstrapGroup}
	for _, g := range strings.Split(value("auth-extra-groups"), ",") {
		if g == "" {
			continue
		}
		if !bootstrapExtra().MatchString(g) {
			return nil, false
		}
		groups = append(groups, g)
	}
	return &user.DefaultInfo{Name: bootstrapUser + parts[1], Groups: groups}, true
}

// expired reports whether the time at has passed. An empty time never does; a malformed one always has.
func (t tokenAuthenticator) expired(at string) bool {
	if at == "" {
		return false
	}
	end, err := time.Parse(time.RFC3339, at)
	return err != nil || !t.clk.Now().Before(end)
}
