package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/clock"
)

// errBadToken is the error for a token that no authenticator accepts.
var errBadToken = errors.New("invalid bearer token")

// bearer authenticates by the token in the Authorization header, or in a WebSocket's subprotocol, since browsers can't set
// headers there.
type bearer struct {
	static Static
	issuer *tokens.Issuer
	reader stage.Reader // of bootstrap tokens; nil: there are none
	clk    clock.Clock
}

func (b bearer) Authenticate(r *http.Request) (user.Info, bool, error) {
	token := headerToken(r.Header)
	if token == "" {
		token = socketToken(r.Header)
	}
	if token == "" {
		return nil, false, nil
	}
	if info, ok := b.static.find(token); ok {
		return info, true, nil
	}
	if info, ok := b.bootstrap(r.Context(), token); ok {
		return info, true, nil
	}
	if b.issuer == nil || !b.issuer.Ours(token) {
		return nil, false, errBadToken
	}
	info, _, err := b.issuer.Verify(r.Context(), token, nil)
	if err != nil {
		return nil, false, errors.Join(errBadToken, err)
	}
	return info, true, nil
}

func headerToken(h http.Header) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	token, _, _ = strings.Cut(token, " ")
	return token
}

// socketPrefix precedes a token, in base64, among a WebSocket's subprotocols.
const socketPrefix = "base64url.bearer.authorization.k8s.io."

// socketToken returns the token among the subprotocols and removes it from the header, so that the server does not choose it as the
// subprotocol of its answer.
func socketToken(h http.Header) string {
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		return ""
	}
	var token string
	var rest []string
	for _, line := range h.Values("Sec-Websocket-Protocol") {
		for _, p := range strings.Split(line, ",") {
			p = strings.TrimSpace(p)
			coded, ok := strings.CutPrefix(p, socketPrefix)
			if !ok {
				rest = append(rest, p)
				continue
			}
			raw, err := base64.RawURLEncoding.DecodeString(coded)
			if err != nil || !utf8.Valid(raw) || token != "" {
				return ""
			}
			token = string(raw)
		}
	}
	if token == "" || len(rest) == 0 {
		return "" // without another subprotocol the server could choose none, and browsers end such a connection
	}
	h.Set("Sec-Websocket-Protocol", strings.Join(rest, ","))
	return token
}
