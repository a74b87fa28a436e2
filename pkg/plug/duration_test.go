package plug

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]string{
		"90m": "", "-1.5s": "", "2562047h47m16s": "",
		"9999999h": `"9999999h" is out of range: a duration is at most 2562047h`,
		"-1e9h":    `"-1e9h" is not a duration such as 90m`,
		"5":        `"5" is not a duration such as 90m`,
		"x":        `"x" is not a duration such as 90m`,
		"":         `"" is not a duration such as 90m`,
	} {
		d, err := ParseDuration(text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if expected, parseErr := time.ParseDuration(text); got != want || d != expected && parseErr == nil {
			t.Errorf("%s: got %s, %q, want %q", text, d, got, want)
		}
	}
}
