package cli

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// wantSVG checks that an image is well-formed, has these parts, and has numbers wherever it computes some.
func wantSVG(t *testing.T, image string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(image, part) {
			t.Errorf("no %s in\n%s", part, image)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(image, bad) {
			t.Errorf("%s in\n%s", bad, image)
		}
	}
	if n := strings.Count(image, "<svg "); n != 1 || !strings.HasPrefix(image, "<svg ") {
		t.Errorf("%d documents in\n%s", n, image)
	}
	for tokens := xml.NewDecoder(strings.NewReader(image)); ; {
		if _, err := tokens.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the image is no XML: %v", err)
		}
	}
}
