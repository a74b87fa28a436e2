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
	ObjectWeight = 64
	NullWeight   = 64
	ArrayWeight  = 10
	OtherWeight  = 5 // also of a key

	// FieldWeight is the weight of an object that is a field in the managedFields of an object. The server adds one for each key of a
	// map, and no struct is made of it.
	FieldWeight = 8

	// DepthPart is the part of its depth that an object or array weighs, too. The library of managedFields inserts the path of each field
	// from the root on: three objects that are 9,900 levels deep took two seconds.
	DepthPart = 40
)

// MaxWeight bounds the weight of a body: 32,768 objects or nulls, 209,715 arrays, or 419,430 keys and other values. An object of
// 1.5 MB, the most that etcd stores, is heavier only if it consists of objects of less than 48 bytes, or of values of less than four.
const MaxWeight = 1 << 21

// lightSize is the size up to which no body is heavier than MaxWeight: an object takes at least two bytes.
const lightSize = MaxWeight / ObjectWeight * 2

// maxDepth is the depth from which no decoder accepts JSON or YAML.
const maxDepth = 10000

// CheckWeight returns the error 413 for JSON whose values take too much memory once decoded.
func CheckWeight(json []byte) error {
	if weight := Weight(json); weight > MaxWeight {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the values of the body weigh %d, the limit is %d: an object weighs %d, a null %d, an array %d, a key or another value %d, "+
				"and an object or array more by its depth divided by %d",
			weight, MaxWeight, ObjectWeight, NullWeight, ArrayWeight, OtherWeight, DepthPart))
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
	var key []byte // the last string, unless a value or a bracket follows
	var path fieldsPath
	for i := 0; i < len(data) && depth <= maxDepth; i++ {
		switch data[i] {
		case ' ', '\t', '\r', '\n', ':':
			inWord = false
		case ',':
			key, inWord = nil, false
		case '{':
			weight += path.objectWeight(key) + depth/DepthPart
			path.open('{', key, depth)
			key, depth, inWord = nil, depth+1, false
		case '[':
			weight += ArrayWeight + depth/DepthPart
			path.open('[', key, depth)
			key, depth, inWord = nil, depth+1, false
		case '}', ']':
			key, depth, inWord = nil, depth-1, false
			path.close(depth)
		case '"':
			weight, inWord = weight+OtherWeight, false
			end := endOfString(data, i)
			key, i = data[i+1:max(end, i+1)], end
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

// fieldsPath is how many of the objects and arrays of metadata.managedFields[].fieldsV1 contain the current value.
type fieldsPath int

// inFields is the fieldsPath of what is in a fieldsV1.
const inFields fieldsPath = 5

// open enters an object or array that is the value of a key at a depth.
func (p *fieldsPath) open(bracket byte, key []byte, depth int) {
	if int(*p) != depth || *p == inFields {
		return
	}
	on := false
	switch *p {
	case 0, 3: // the whole, and an item of managedFields
		on = bracket == '{'
	case 1:
		on = bracket == '{' && string(key) == "metadata"
	case 2:
		on = bracket == '[' && string(key) == "managedFields"
	case 4:
		on = bracket == '{' && string(key) == "fieldsV1"
	}
	if on {
		*p++
	}
}

// close leaves an object or array at a depth.
func (p *fieldsPath) close(depth int) { *p = min(*p, fieldsPath(max(depth, 0))) }

// objectWeight returns the weight of an object that is the value of a key.
func (p *fieldsPath) objectWeight(key []byte) int {
	if *p == inFields && (string(key) == "." || len(key) > 1 && key[1] == ':' && bytes.IndexByte([]byte("fkv"), key[0]) >= 0) {
		return FieldWeight
	}
	return ObjectWeight
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
