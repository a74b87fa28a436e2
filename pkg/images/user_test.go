package images

import (
	"fmt"
	"testing"
)

func TestUserIDs(t *testing.T) {
	for text, want := range map[string]string{
		"":             "none",
		"12345":        "12345:0",
		"12345:77":     "12345:77",
		"root":         "0:0",
		"root:12":      "0:12",
		"0:root":       "0:0",
		"no-such-user": "user: unknown user no-such-user",
		"0:no-group":   "group: unknown group no-group",
	} {
		u, err := ParseUser(text)
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if uid, gid, err := u.IDs(); err != nil {
			got = err.Error()
		} else if uid != nil {
			got = fmt.Sprintf("%d:%d", *uid, *gid)
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
