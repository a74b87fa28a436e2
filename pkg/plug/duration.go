package plug

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// ParseDuration parses a duration of a setting or a command. Its errors are for users.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	zero := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '0'
		}
		return r
	}, text)
	if _, err := time.ParseDuration(zero); err == nil && !strings.HasSuffix(zero, "0") { // only its numbers are wrong
		return 0, fmt.Errorf("%q is out of range: a duration is at most %dh", text, math.MaxInt64/time.Hour)
	}
	return 0, fmt.Errorf("%q is not a duration such as 90m", text)
}
