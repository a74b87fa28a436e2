package english

import "testing"

func TestNeedsTranslation(t *testing.T) {
	for _, c := range []struct {
		variables []string
		want      bool
	}{
		{nil, false}, {[]string{"", "", ""}, false}, {[]string{"", "", "en_US.UTF-8"}, false}, {[]string{"", "", "C"}, false},
		{[]string{"", "", "de_DE.UTF-8"}, true}, {[]string{"C.UTF-8", "", "de_DE.UTF-8"}, false}, {[]string{"", "ja_JP.UTF-8", "C"}, true},
	} {
		if got := translated(c.variables...); got != c.want {
			t.Errorf("%v: got %v", c.variables, got)
		}
	}
}
