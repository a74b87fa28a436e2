package check

import "strings"

func isLower(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
func isAlnum(c byte) bool { return isLower(c) || 'A' <= c && c <= 'Z' }

// isDNSLabels reports whether s is a DNS label, or with dots a series of them.
func isDNSLabels(s string, dots bool) bool {
	start := true // at the start of a label
	last := byte('-')
	for i := range len(s) {
		c := s[i]
		switch {
		case isLower(c):
			start = false
		case c == '-' && !start:
		case c == '.' && dots && last != '-' && !start:
			start = true
		default:
			return false
		}
		last = c
	}
	return !start && last != '-'
}

func isDNSLabel(s string) bool  { return len(s) <= 63 && isDNSLabels(s, false) }
func isSubdomain(s string) bool { return len(s) <= 253 && isDNSLabels(s, true) }

// isWord reports whether s has letters and digits at both ends and also dashes, underscores and dots between.
func isWord(s string) bool {
	if s == "" || len(s) > 63 || !isAlnum(s[0]) || !isAlnum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isLabelValue(s string) bool { return s == "" || isWord(s) }

func isQualified(s string) bool {
	if prefix, name, ok := strings.Cut(s, "/"); ok {
		return isSubdomain(prefix) && isWord(name)
	}
	return isWord(s)
}

func isConfigKey(s string) bool {
	if s == "" || len(s) > 253 || s == "." || strings.HasPrefix(s, "..") {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isPortName(s string) bool {
	if s == "" || len(s) > 15 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	letter := false
	for i := range len(s) {
		c := s[i]
		if c == '-' && s[i-1] == '-' || c != '-' && !isLower(c) {
			return false
		}
		letter = letter || 'a' <= c && c <= 'z'
	}
	return letter
}

// isGraphic reports whether s has only printable ASCII.
func isGraphic(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func areLabels(labels map[string]string) bool {
	for key, value := range labels {
		if !isQualified(key) || !isLabelValue(value) {
			return false
		}
	}
	return true
}
