package bodies

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// MaxNodes bounds the nodes of a YAML document: its keys, values, items and aliases. The library makes some 250 bytes of each before
// anything can be made of them. A body of 3 MB has more only if they take less than twelve bytes each.
const MaxNodes = 1 << 18

// CheckYAML returns the error 413 for YAML with too many nodes.
func CheckYAML(data []byte) error {
	if n := Nodes(data); n > MaxNodes {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the YAML of the body has %d keys, values and items, the limit is %d", n, MaxNodes))
	}
	return nil
}

// Nodes returns the number of nodes in YAML without parsing it; 0 for a small body. It counts no text in quotes, comments, plain and
// block scalars. What is no YAML has any number. It stops where the nodes are nested too deep to be parsed.
//
// It finds the tokens as the library's scanner does, or the nodes of a body could be hidden in what it takes for text.
func Nodes(data []byte) int {
	if len(data) <= MaxNodes {
		return 0
	}
	data = bytes.TrimPrefix(fromUTF16(data), []byte(byteOrderMark))
	if bytes.Contains(data, []byte(byteOrderMark)) { // there the library may skip what begins a line
		return most(data)
	}
	y := yamlNodes{data: data, indent: -1, allowed: true}
	for y.next() && len(y.indents) <= maxDepth && y.flow <= maxDepth {
		y.token()
	}
	return y.nodes
}

const byteOrderMark = "\ufeff"

// most returns the most nodes that YAML can have, if no text hides them.
func most(data []byte) int {
	n := 1
	for _, c := range data {
		if bytes.IndexByte([]byte(",:-?[{"), c) >= 0 {
			n++
		}
	}
	return n
}

// fromUTF16 converts data that begins with a byte order mark of UTF-16, which the library accepts, to UTF-8.
func fromUTF16(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return data
	}
	words := make([]uint16, len(data)/2)
	for i := range words {
		words[i] = order.Uint16(data[2*i:])
	}
	return []byte(string(utf16.Decode(words)))
}

// yamlNodes counts nodes from at on.
type yamlNodes struct {
	data  []byte
	at    int
	nodes int
	flow  int // how many flow collections contain what follows

	line, start     int // the number of the line, and where it begins
	counted, column int // the column of a place in the line, in characters

	// Outside flow collections:
	indent  int   // the column of the innermost block collection; -1: there is none
	indents []int // those of the collections around it
	allowed bool  // a key may begin here
	key     yamlKey
}

// yamlKey is the place of what is a key if a colon follows in the same line.
type yamlKey struct {
	line, column int
	possible     bool
}

// maxKey is the number of characters between the begin of a key and its colon.
const maxKey = 1024

// next goes to the next token, behind blanks, comments and ends of lines. It returns false at the end.
func (y *yamlNodes) next() bool {
	for y.at < len(y.data) {
		switch c := y.data[y.at]; {
		case c == ' ' || c == '\t':
			y.at++
		case c == '#':
			y.endOfLine()
		case y.newline():
			y.allowed = y.allowed || y.flow == 0
		default:
			return true
		}
	}
	return false
}

// token counts the token at y.at, and goes behind it.
func (y *yamlNodes) token() {
	y.unroll(y.here())
	c := y.data[y.at]
	switch {
	case y.at == y.start && c == '%': // a directive
		y.endOfLine()
	case y.atDocument():
		y.unroll(-1)
		y.at += 3
		y.allowed, y.key.possible = false, false
	case c == '[' || c == '{':
		y.nodes++
		y.mayBeKey()
		y.flow++
		y.at++
	case c == ']' || c == '}':
		y.flow = max(0, y.flow-1)
		y.allowed = false
		y.at++
	case c == ',':
		y.nodes++
		y.at++
	case c == '-' && y.blankAt(y.at+1), c == '?' && (y.flow > 0 || y.blankAt(y.at+1)):
		y.nodes++
		y.roll(y.here())
		y.allowed, y.key.possible = true, false
		y.at++
	case c == ':' && (y.flow > 0 || y.blankAt(y.at+1)):
		y.value()
	case c == '&' || c == '*':
		y.mayBeKey()
		for y.at++; y.at < len(y.data) && isWord(y.data[y.at]); y.at++ {
		}
	case c == '!':
		y.mayBeKey()
		for !y.blankAt(y.at) {
			y.at++
		}
	case (c == '|' || c == '>') && y.flow == 0:
		y.block()
	case c == '"' || c == '\'':
		y.mayBeKey()
		y.quoted(c)
	default:
		y.mayBeKey()
		y.plain()
	}
}

// value counts a key and its value at a colon.
func (y *yamlNodes) value() {
	y.nodes++
	if y.flow == 0 {
		y.nodes++ // in a flow collection the bracket or comma before has counted the key
		if k := y.key; k.possible && k.line == y.line && y.here() <= k.column+maxKey {
			y.roll(k.column)
			y.allowed = false
		} else {
			y.roll(y.here())
			y.allowed = true
		}
		y.key.possible = false
	}
	y.at++
}

// mayBeKey notes that what begins here is a key if a colon follows, and that none begins behind it.
func (y *yamlNodes) mayBeKey() {
	if y.flow == 0 && y.allowed {
		y.key = yamlKey{y.line, y.here(), true}
		y.allowed = false
	}
}

// roll begins a block collection at a column, unless it has begun.
func (y *yamlNodes) roll(column int) {
	if y.flow == 0 && y.indent < column {
		y.indents = append(y.indents, y.indent)
		y.indent = column
	}
}

// unroll ends the block collections behind a column.
func (y *yamlNodes) unroll(column int) {
	for y.flow == 0 && y.indent > column {
		last := len(y.indents) - 1
		y.indent, y.indents = y.indents[last], y.indents[:last]
	}
}

// here returns the column of y.at.
func (y *yamlNodes) here() int {
	y.column += utf8.RuneCount(y.data[y.counted:y.at])
	y.counted = y.at
	return y.column
}

// atDocument reports whether the begin or the end of a document is here.
func (y *yamlNodes) atDocument() bool {
	if y.at != y.start || !y.blankAt(y.at+3) {
		return false
	}
	mark := string(y.data[y.at:min(y.at+3, len(y.data))])
	return mark == "---" || mark == "..."
}

// blankAt reports whether a blank, the end of a line or the end is at an index.
func (y *yamlNodes) blankAt(at int) bool {
	return at >= len(y.data) || y.data[at] == ' ' || y.data[at] == '\t' || breakAt(y.data, at) > 0
}

// newline goes to the next line if the end of one is here.
func (y *yamlNodes) newline() bool {
	n := breakAt(y.data, y.at)
	if n == 0 {
		return false
	}
	y.at += n
	y.line++
	y.start, y.counted, y.column = y.at, y.at, 0
	return true
}

// endOfLine goes to the end of the line.
func (y *yamlNodes) endOfLine() {
	for y.at < len(y.data) && breakAt(y.data, y.at) == 0 {
		y.at++
	}
}

// breakAt returns the length of the end of a line at an index: one of a carriage return, a line feed, and the three of Unicode. It
// is 0 if there is none.
func breakAt(data []byte, at int) int {
	if at >= len(data) {
		return 0
	}
	switch c := data[at]; {
	case c == '\r' || c == '\n':
		return 1
	case c < utf8.RuneSelf:
		return 0
	}
	for _, end := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.HasPrefix(data[at:], []byte(end)) {
			return len(end)
		}
	}
	return 0
}

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-'
}

// quoted skips a quoted scalar.
func (y *yamlNodes) quoted(mark byte) {
	for y.at++; y.at < len(y.data); {
		switch c := y.data[y.at]; {
		case c == '\\' && mark == '"':
			y.at++
			if !y.newline() {
				y.at++
			}
		case c == mark && mark == '\'' && y.at+1 < len(y.data) && y.data[y.at+1] == mark:
			y.at += 2
		case c == mark:
			y.at++
			return
		case !y.newline():
			y.at++
		}
	}
}

// plain skips a scalar without quotes, which goes on in the next lines if they are indented more than the collection.
func (y *yamlNodes) plain() {
	for first := true; y.at < len(y.data); first = false {
		if !first && (y.data[y.at] == '#' || y.atDocument()) {
			return
		}
		begin := y.at
		for !y.blankAt(y.at) && !y.endsPlain() {
			y.at++
		}
		if first && y.at == begin { // no scalar can begin with it
			y.at++
			return
		}
		if !y.blankAt(y.at) {
			return
		}
		line := y.line
		for y.at < len(y.data) && y.blankAt(y.at) {
			if !y.newline() {
				y.at++
			}
		}
		if y.line > line {
			if y.allowed = y.flow == 0; y.allowed && y.here() <= y.indent {
				return
			}
		}
	}
}

// endsPlain reports whether what is here ends a scalar without quotes.
func (y *yamlNodes) endsPlain() bool {
	c := y.data[y.at]
	return c == ':' && y.blankAt(y.at+1) || y.flow > 0 && bytes.IndexByte([]byte(",?[]{}"), c) >= 0
}

// block skips a block scalar: the lines behind its | or > that are indented at least as much as the first.
func (y *yamlNodes) block() {
	y.allowed, y.key.possible = true, false
	y.at++
	indent := 0
	for ; y.at < len(y.data) && bytes.IndexByte([]byte("0123456789+-"), y.data[y.at]) >= 0; y.at++ {
		if c := y.data[y.at]; c >= '0' && c <= '9' {
			indent = max(y.indent, 0) + int(c-'0')
		}
	}
	for y.at < len(y.data) && (y.data[y.at] == ' ' || y.data[y.at] == '\t') {
		y.at++
	}
	if y.at < len(y.data) && y.data[y.at] == '#' {
		y.endOfLine()
	}
	if !y.newline() {
		return
	}
	if first := y.indentation(indent); indent == 0 {
		indent = max(first, y.indent+1, 1)
	}
	for y.at < len(y.data) && y.at-y.start == indent {
		y.endOfLine()
		if !y.newline() {
			return
		}
		y.indentation(indent)
	}
}

// indentation skips empty lines, and the blanks at the begin of the next one, up to so many (0: all). It returns the most blanks.
func (y *yamlNodes) indentation(limit int) (blanks int) {
	for {
		for y.at < len(y.data) && y.data[y.at] == ' ' && (limit == 0 || y.at-y.start < limit) {
			y.at++
		}
		blanks = max(blanks, y.at-y.start)
		if !y.newline() {
			return blanks
		}
	}
}
