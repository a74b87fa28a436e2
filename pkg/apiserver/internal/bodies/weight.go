package bodies

import (
	"bytes"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ObjectWeight, NullWeight, ArrayWeight and OtherWeight are the weights of JSON values, in proportion to the memory that they take
// once decoded: an object becomes a map, or a struct of up to several hundred bytes, even if it is empty, and so does a null in a
// list of objects.
const (
	ObjectWeight = 32
	NullWeight   = 32
	ArrayWeight  = 2
	OtherWeight  = 1 // also of a key
)

// MaxWeight bounds the weight of a body: 32,768 objects or nulls, 524,288 arrays, or 1,048,576 keys and other values. An object of
// 1.5 MB, the most that etcd stores, is heavier only if it consists of objects of less than 48 bytes, or of values of less than two.
const MaxWeight = 1 << 20

// lightSize is the size up to which no body is heavier than MaxWeight: an object takes at least two bytes.
const lightSize = MaxWeight / ObjectWeight * 2

// maxDepth is the depth from which no decoder accepts JSON or YAML.
const maxDepth = 10000

// CheckWeight returns the error 413 for JSON whose values take too much memory once decoded.
func CheckWeight(json []byte) error {
	if weight := Weight(json); weight > MaxWeight {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the values of the body weigh %d, the limit is %d: an object weighs %d, a null %d, an array %d, a key or another value %d",
			weight, MaxWeight, ObjectWeight, NullWeight, ArrayWeight, OtherWeight))
	}
	return nil
}

// LooksLikeJSON reports whether a body begins as an object or an array, which YAML can, too.
func LooksLikeJSON(body []byte) bool {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// Weight returns the sum of the weights of the values in JSON without decoding it; 0 for a small body. It stops where the values are
// nested too deep to be decoded.
func Weight(data []byte) int {
	if len(data) <= lightSize {
		return 0
	}
	weight, depth, inWord := 0, 0, false
	for i := 0; i < len(data) && depth <= maxDepth; i++ {
		switch data[i] {
		case ' ', '\t', '\r', '\n', ',', ':':
			inWord = false
		case '{':
			weight, depth, inWord = weight+ObjectWeight, depth+1, false
		case '[':
			weight, depth, inWord = weight+ArrayWeight, depth+1, false
		case '}', ']':
			depth, inWord = depth-1, false
		case '"':
			weight, inWord = weight+OtherWeight, false
			i = endOfString(data, i)
		default:
			switch {
			case inWord:
			case data[i] == 'n':
				weight += NullWeight
			default:
				weight += OtherWeight
			}
			inWord = true
		}
	}
	return weight
}

// endOfString returns the index of the closing quotation mark of the string that begins at start.
func endOfString(data []byte, start int) int {
	for i := start + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}
