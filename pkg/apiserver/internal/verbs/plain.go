package verbs

// PlainJSON reports whether data is JSON that means the same as YAML: an object of ASCII text, without numbers that YAML reads as
// another type. Clients send nearly all configurations as JSON, and decoding it as such takes a quarter of the time and memory.
// Text that is no JSON at all may pass, too.
func PlainJSON(data []byte) bool {
	begun, quoted, digits := false, false, 0
	for i := 0; i < len(data); i++ {
		c := data[i]
		if c >= 0x7f || !begun && c > ' ' && c != '{' {
			return false
		}
		begun = begun || c > ' '
		if quoted {
			switch {
			case c == '"':
				quoted = false
			case c == '\\':
				i++
				if i+1 < len(data) && (data[i] == '/' || data[i] == 'u' && (data[i+1] == 'd' || data[i+1] == 'D')) {
					return false // escapes that YAML does not have: that of the slash, and half a character
				}
			}
			continue
		}
		if c < '0' || c > '9' {
			digits = 0
		}
		switch {
		case c == '"':
			quoted = true
		case c == '\t':
			return false // YAML allows it in few places
		case c == '.' || c == 'E' || c == 'e' && !afterLetter(data[:i]):
			return false // YAML makes an integer of 1.0
		case c >= '0' && c <= '9':
			if digits++; digits > maxDigits {
				return false
			}
		}
	}
	return begun
}

// maxDigits is the length of numbers that certainly fit into an int64.
const maxDigits = 18

// afterLetter reports whether the last byte is a letter, as in true and false.
func afterLetter(data []byte) bool {
	return len(data) > 0 && data[len(data)-1] >= 'a' && data[len(data)-1] <= 'z'
}
