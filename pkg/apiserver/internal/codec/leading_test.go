package codec

import "testing"

// A body's kind is found without decoding it only where nothing in front of it can say otherwise.
func TestLeadingKind(t *testing.T) {
	for data, want := range map[string]string{
		`{"kind":"DecisionList","items":[]}`: "DecisionList", `{"kind":""}`: "",
		`{ "kind":"DecisionList"}`: "-", `{"kind":"A\u0042"}`: "-", `{"kind":"A`: "-", `{"apiVersion":"v1","kind":"A"}`: "-", `[]`: "-", ``: "-",
	} {
		kind, ok := leadingKind([]byte(data))
		if !ok {
			kind = "-"
		}
		if kind != want {
			t.Errorf("%s: %q, want %q", data, kind, want)
		}
	}
}
