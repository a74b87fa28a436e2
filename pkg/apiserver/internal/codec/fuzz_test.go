package codec

import (
	"net/http/httptest"
	"testing"
)

// FuzzNegotiate reads Accept and Content-Type headers.
func FuzzNegotiate(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json; charset=utf-8", "pretty=1")
	f.Add("*/*;q=0.1, application/vnd.kubernetes.protobuf;q=2", "application/yaml", "pretty")
	f.Add(";;,/;q=,", ";", "%zz")
	f.Fuzz(func(t *testing.T, accept, contentType, query string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		r.Header.Set("Accept", accept)
		r.Header.Set("Content-Type", contentType)
		offer := Offer{Transform: Metadata}
		m, err := Negotiate(r, offer)
		if err == nil && m.Table() && m.Format == Protobuf {
			t.Errorf("a table in protobuf for %q", accept)
		}
		_, _ = BodyFormat(r, offer)
	})
}
