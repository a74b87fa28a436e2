// Package tokens owns ServiceAccount tokens: it issues signed tokens for TokenRequests, verifies tokens and the objects that
// they are bound to, and publishes the public key that verifies them.
package tokens

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// DefaultIssuer is the default issuer, and the default audience of a token.
const DefaultIssuer = "https://kubernetes.default.svc"

// leeway is the accepted difference between clocks.
const leeway = time.Minute

// Issuer issues and verifies tokens. It is safe for concurrent use.
type Issuer struct {
	key    *ecdsa.PrivateKey
	kid    string
	issuer string
	reader stage.Reader
	clk    clock.Clock
	used   Used

	verified verified
}

// Used records the date of the last use of a Secret's token in the Secret's label.
type Used func(ctx context.Context, secret *corev1.Secret, label, date string) error

// New returns an Issuer that signs with key and looks up bound objects with r. With nil for used the uses of tokens in Secrets are not
// recorded.
func New(key *ecdsa.PrivateKey, issuer string, r stage.Reader, clk clock.Clock, used Used) (*Issuer, error) {
	kid, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("name the key of ServiceAccount tokens: %w", err)
	}
	return &Issuer{key: key, kid: kid, issuer: issuer, reader: r, clk: clk, used: used}, nil
}

// HasIssuer reports whether a token names this issuer. It verifies nothing.
func (i *Issuer) HasIssuer(token string) bool {
	if i.verified.find(token) != nil {
		return true
	}
	signed, err := parse(token)
	if err != nil {
		return false
	}
	issuer := issuerOf(signed)
	return issuer == i.issuer || issuer == legacyIssuer
}

// Verify verifies a token and returns its user and which of the wanted audiences it has. Without wanted audiences it must be for
// the API server. The errors may be shown to the client.
func (i *Issuer) Verify(ctx context.Context, token string, wanted []string) (user.Info, []string, error) {
	c := i.verified.find(token)
	if c == nil {
		signed, err := parse(token)
		if err != nil {
			return nil, nil, err
		}
		body, err := signed.Verify(&i.key.PublicKey)
		if err != nil {
			return nil, nil, err
		}
		if issuerOf(signed) == legacyIssuer {
			return i.verifyLegacy(ctx, token, body, wanted)
		}
		c = &claims{}
		if err := json.Unmarshal(body, c); err != nil {
			return nil, nil, fmt.Errorf("claims: %w", err)
		}
		if c.Issuer != i.issuer {
			return nil, nil, errors.New("the token is of another issuer")
		}
		i.verified.add(token, c)
	}
	if err := i.inTime(c); err != nil {
		return nil, nil, err
	}
	if len(wanted) == 0 {
		wanted = []string{i.issuer}
	}
	var both []string
	for _, a := range wanted {
		if slices.Contains(c.Audience, a) {
			both = append(both, a)
		}
	}
	if len(both) == 0 {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string(c.Audience), wanted)
	}
	if want := Username(c.Kubernetes.Namespace, c.Kubernetes.ServiceAccount.Name); c.Subject != want {
		return nil, nil, errors.New("sub claim is invalid")
	}
	node, err := i.live(ctx, c.Kubernetes)
	if err != nil {
		return nil, nil, err
	}
	return c.user(node), both, nil
}

func (i *Issuer) inTime(c *claims) error {
	now := i.clk.Now()
	if now.After(time.Unix(int64(c.Expiry), 0).Add(leeway)) {
		return errors.New("service account token has expired")
	}
	if now.Before(time.Unix(int64(c.NotBefore), 0).Add(-leeway)) {
		return errors.New("service account token is not valid yet")
	}
	return nil
}

// live returns an error unless all objects that a token is bound to still exist. It returns the node of its pod.
func (i *Issuer) live(ctx context.Context, b bound) (*ref, error) {
	sa, err := i.reader.Get(ctx, serviceAccounts, objects.Key{Namespace: b.Namespace, Name: b.ServiceAccount.Name})
	if err != nil {
		return nil, err
	}
	if i.gone(sa) {
		return nil, fmt.Errorf("service account %s/%s has been deleted", b.Namespace, b.ServiceAccount.Name)
	}
	if string(sa.GetUID()) != b.ServiceAccount.UID {
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", sa.GetUID(), b.ServiceAccount.UID)
	}
	if b.Secret != nil {
		if err := i.bound(ctx, secrets, b.Namespace, *b.Secret, "secret", "service account secret ref claim"); err != nil {
			return nil, err
		}
	}
	node := b.Node
	if b.Pod != nil {
		return node, i.bound(ctx, pods, b.Namespace, *b.Pod, "pod", "service account pod ref claim")
	}
	if node != nil {
		if err := i.bound(ctx, nodes, "", *node, "node", "service account node ref claim"); err != nil {
			return nil, err
		}
	}
	return node, nil
}

func (i *Issuer) bound(ctx context.Context, r schema.GroupResource, ns string, to ref, what, claim string) error {
	obj, err := i.reader.Get(ctx, r, objects.Key{Namespace: ns, Name: to.Name})
	if err != nil || i.gone(obj) {
		return errors.New("service account token has been invalidated")
	}
	if string(obj.GetUID()) != to.UID {
		return fmt.Errorf("%s UID (%s) does not match %s (%s)", what, obj.GetUID(), claim, to.UID)
	}
	return nil
}

// gone reports whether the deletion time of an object is more than a minute ago. Until then a terminating pod may use its token.
func (i *Issuer) gone(obj metav1.Object) bool {
	t := obj.GetDeletionTimestamp()
	return t != nil && t.Time.Before(i.clk.Now().Add(-leeway))
}

// The resources that tokens may be bound to.
var (
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	pods            = schema.GroupResource{Resource: "pods"}
	secrets         = schema.GroupResource{Resource: "secrets"}
	nodes           = schema.GroupResource{Resource: "nodes"}
)

const userPrefix = "system:serviceaccount:"

// Username returns the user name of a ServiceAccount.
func Username(namespace, name string) string { return userPrefix + namespace + ":" + name }

// SplitUsername is the inverse of Username; ok is false if the name isn't a ServiceAccount's.
func SplitUsername(name string) (namespace, account string, ok bool) {
	rest, ok := strings.CutPrefix(name, userPrefix)
	if !ok {
		return "", "", false
	}
	namespace, account, ok = strings.Cut(rest, ":")
	return namespace, account, ok && namespace != "" && account != "" && !strings.Contains(account, ":")
}

// Groups returns the groups of the ServiceAccounts of a namespace.
func Groups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// The keys of a user's extra values that come from its token.
const (
	podNameKey  = "authentication.kubernetes.io/pod-name"
	podUIDKey   = "authentication.kubernetes.io/pod-uid"
	nodeNameKey = "authentication.kubernetes.io/node-name"
	nodeUIDKey  = "authentication.kubernetes.io/node-uid"
)

// Credential returns the credential ID of a token for audit logs, or "" if the token has none.
func Credential(token string) string {
	var c claims
	if !unverified(token, &c) || c.ID == "" {
		return ""
	}
	return "JTI=" + c.ID
}

func (c *claims) user(node *ref) *user.DefaultInfo {
	extra := map[string][]string{}
	if c.ID != "" {
		extra[user.CredentialIDKey] = []string{"JTI=" + c.ID}
	}
	if p := c.Kubernetes.Pod; p != nil {
		extra[podNameKey], extra[podUIDKey] = []string{p.Name}, []string{p.UID}
	}
	if node != nil && node.Name != "" {
		extra[nodeNameKey] = []string{node.Name}
		if node.UID != "" {
			extra[nodeUIDKey] = []string{node.UID}
		}
	}
	b := c.Kubernetes
	return &user.DefaultInfo{
		Name: c.Subject, UID: b.ServiceAccount.UID, Groups: Groups(b.Namespace), Extra: extra,
	}
}
