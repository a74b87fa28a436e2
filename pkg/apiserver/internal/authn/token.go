package authn

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/clock"
)

// errBadToken is the error for a token that no authenticator accepts.
var errBadToken = errors.New("invalid bearer token")

// tokenAuthenticator authenticates tokens of the token file, bootstrap tokens and ServiceAccount tokens.
type tokenAuthenticator struct {
	static Static
	issuer *tokens.Issuer
	reader stage.Reader // of bootstrap tokens; nil: there are none
	clk    clock.Clock
}

// AuthenticateToken implements authenticator.Token.
func (t tokenAuthenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if info, ok := t.static.find(token); ok {
		return &authenticator.Response{User: info}, true, nil
	}
	if info, ok := t.bootstrap(ctx, token); ok {
		return &authenticator.Response{User: info}, true, nil
	}
	if t.issuer == nil || !t.issuer.HasIssuer(token) {
		return nil, false, errBadToken
	}
	info, _, err := t.issuer.Verify(ctx, token, nil)
	if err != nil {
		return nil, false, errors.Join(errBadToken, err)
	}
	return &authenticator.Response{User: info}, true, nil
}
