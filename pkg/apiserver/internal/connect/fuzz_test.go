package connect

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzOptions parses connection options from arbitrary requests.
func FuzzOptions(f *testing.F) {
	f.Add("pods", "exec", "command=sh&command=-c&stdin=1&tty=false&container=c", "")
	f.Add("pods", "portforward", "ports=80,81&ports=x", "")
	f.Add("services", "proxy", "path=/a", "a/b")
	f.Fuzz(func(t *testing.T, resource, subresource, query, rest string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		out, err := Options(resource, subresource, values, strings.Split(rest, "/"))
		if err != nil && out != nil {
			t.Errorf("%v and %v", out, err)
		}
	})
}
