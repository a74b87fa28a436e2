package volume

import "strings"

// validName reports whether name is the name part of an image reference: an optional host with port, then lower-case
// path components.
func validName(name string) bool {
	host, path, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" && strings.ToLower(host) == host {
		host, path = "", name
	} else if !validHost(host) {
		return false
	}
	if longest := 255; len(path)+len(impliedFolder(host, path)) > longest || isIdentifier(name) {
		return false
	}
	for component := range strings.SplitSeq(path, "/") {
		if !validComponent(component) {
			return false
		}
	}
	return true
}

// impliedFolder is what the default registry puts before a name without a folder.
func impliedFolder(host, path string) string {
	if (host == "" || host == "docker.io" || host == "index.docker.io") && !strings.Contains(path, "/") {
		return "library/"
	}
	return ""
}

// isIdentifier reports whether name looks like an image's ID, which is no name.
func isIdentifier(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

func validHost(host string) bool {
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		return end > 1 && strings.Trim(host[1:end], "0123456789abcdefABCDEF:") == "" && validPort(host[end+1:])
	}
	labels, port := host, ""
	if i := strings.IndexByte(host, ':'); i >= 0 {
		labels, port = host[:i], host[i:]
	}
	for label := range strings.SplitSeq(labels, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; c != '-' && !isDigit(c) && !isLower(c) && !isUpper(c) {
				return false
			}
		}
	}
	return validPort(port)
}

// validPort accepts nothing or a colon and digits.
func validPort(port string) bool {
	return port == "" || len(port) > 1 && port[0] == ':' && strings.Trim(port[1:], "0123456789") == ""
}

// validComponent accepts lower-case letters and digits with single separators between them: a dot, one or two
// underscores, or dashes.
func validComponent(c string) bool {
	separator := ""
	letters := 0
	for i := range len(c) {
		if isLower(c[i]) || isDigit(c[i]) {
			if letters == 0 && separator != "" || !validSeparator(separator) {
				return false
			}
			letters++
			separator = ""
			continue
		}
		start := i - len(separator)
		separator = c[start : i+1]
	}
	return letters > 0 && separator == ""
}

func validSeparator(s string) bool {
	return s == "" || s == "." || s == "_" || s == "__" || strings.Trim(s, "-") == ""
}

// digestLengths are the lengths of digests in hexadecimal.
var digestLengths = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

func validDigest(digest string) bool {
	algorithm, hex, _ := strings.Cut(digest, ":")
	return len(hex) > 0 && len(hex) == digestLengths[algorithm] && strings.Trim(hex, "0123456789abcdef") == ""
}

func validTag(tag string) bool {
	if tag == "" || len(tag) > 128 || tag[0] == '.' || tag[0] == '-' {
		return false
	}
	for i := range len(tag) {
		if c := tag[i]; c != '_' && c != '.' && c != '-' && !isDigit(c) && !isLower(c) && !isUpper(c) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
