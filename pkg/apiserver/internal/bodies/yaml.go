package bodies

import (
	"bytes"
	"fmt"

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
func Nodes(data []byte) int {
	if len(data) <= MaxNodes {
		return 0
	}
	y := yamlNodes{data: data}
	for y.at < len(data) {
		y.line()
	}
	return y.nodes
}

// yamlNodes counts nodes from at on.
type yamlNodes struct {
	data   []byte
	at     int
	nodes  int
	flow   int  // how many flow collections contain what follows
	begins bool // a node may begin here
	parent int  // the column of the innermost node that began in the line
}

// line counts the nodes of a line, and of the lines in which its quoted text ends.
func (y *yamlNodes) line() {
	start, depth := y.at, 0
	y.skip(" ")
	y.parent, y.begins = y.at-start, true
	for y.flow == 0 && y.at+1 < len(y.data) && (y.data[y.at] == '-' || y.data[y.at] == '?') && isBlank(y.data[y.at+1]) {
		y.nodes++
		if depth++; depth > maxDepth {
			y.at = len(y.data)
			return
		}
		y.parent = y.at - start
		y.at++
		if y.skip(" \t"); y.at < len(y.data) && y.data[y.at] != '|' && y.data[y.at] != '>' {
			y.parent = y.at - start
		}
	}
	for y.at < len(y.data) && y.data[y.at] != '\n' {
		y.token()
	}
	y.at++
}

// token counts what begins at a byte.
func (y *yamlNodes) token() {
	c, begins := y.data[y.at], y.begins
	y.at++
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		if y.at < len(y.data) && y.data[y.at] == '#' {
			y.endOfLine()
		}
		return
	case c == ':' && (y.at == len(y.data) || isBlank(y.data[y.at]) || y.flow > 0 && (y.at > 1 && y.data[y.at-2] == '"' || bytes.IndexByte([]byte(",[]{}"), y.data[y.at]) >= 0)):
		y.nodes += 2
		if y.flow > 0 {
			y.nodes-- // the bracket or comma before has counted the key
		}
		y.begins = true
		return
	case y.flow > 0 && c == ',':
		y.nodes++
		y.begins = true
		return
	case (y.flow > 0 || begins) && (c == '[' || c == '{'):
		y.nodes++
		if y.flow++; y.flow > maxDepth {
			y.at = len(y.data)
		}
		y.begins = true
		return
	case y.flow > 0 && (c == ']' || c == '}'):
		y.flow--
	case begins && (c == '"' || c == '\''):
		y.quoted(c)
	case begins && (c == '&' || c == '!'):
		for y.at < len(y.data) && !isBlank(y.data[y.at]) {
			y.at++
		}
		return
	case begins && c == '#':
		y.endOfLine()
	case begins && y.flow == 0 && (c == '|' || c == '>'):
		y.block()
	}
	y.begins = false
}

func (y *yamlNodes) skip(any string) {
	for y.at < len(y.data) && bytes.IndexByte([]byte(any), y.data[y.at]) >= 0 {
		y.at++
	}
}

func (y *yamlNodes) endOfLine() {
	if n := bytes.IndexByte(y.data[y.at:], '\n'); n >= 0 {
		y.at += n
		return
	}
	y.at = len(y.data)
}

// quoted skips a quoted scalar behind its quotation mark.
func (y *yamlNodes) quoted(mark byte) {
	for ; y.at < len(y.data); y.at++ {
		switch {
		case y.data[y.at] == '\\' && mark == '"':
			y.at++
		case y.data[y.at] == mark && mark == '\'' && y.at+1 < len(y.data) && y.data[y.at+1] == mark:
			y.at++
		case y.data[y.at] == mark:
			y.at++
			return
		}
	}
	y.at = len(y.data)
}

// block skips the lines of a block scalar, which are indented more than its parent, behind its | or >.
func (y *yamlNodes) block() {
	y.skip("0123456789+-")
	for y.endOfLine(); y.at < len(y.data); y.endOfLine() {
		start := y.at + 1
		end := start
		for end < len(y.data) && y.data[end] == ' ' {
			end++
		}
		if end < len(y.data) && y.data[end] != '\n' && y.data[end] != '\r' && end-start <= y.parent {
			return // at the end of the scalar's last line
		}
		y.at = end
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
