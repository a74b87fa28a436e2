package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// maxDecoded bounds the memory that the structs and strings of a protobuf message take once decoded. A body of 3 MB could hold a
// million empty containers, each of which becomes a struct of several hundred bytes. What etcd can store takes a few times its size.
const maxDecoded = 32 << 20

// errDecoded is the error of a message that takes more memory.
var errDecoded = fmt.Errorf("it takes more than %d bytes of memory", maxDecoded)

// checkDecoded returns errDecoded for a message whose decoded form, a struct of type t, takes too much memory. It ignores what is no
// valid message.
func checkDecoded(message []byte, t reflect.Type) error {
	if len(message) <= 32<<10 { // nothing takes a thousand times its size
		return nil
	}
	left := maxDecoded
	measure(message, t, &left)
	if left < 0 {
		return errDecoded
	}
	return nil
}

// measure subtracts from left the memory that the parts of a message take outside its struct of type t. It stops when nothing is left.
func measure(message []byte, t reflect.Type, left *int) {
	parts := partsOf(t)
	for len(message) > 0 && *left >= 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return
		}
		message = message[n:]
		var inside []byte
		switch tag & 7 {
		case 0: // a varint
			if _, n = binary.Uvarint(message); n <= 0 {
				return
			}
		case 1:
			n = 8
		case 2: // bytes: a string or a message
			length, m := binary.Uvarint(message)
			if m <= 0 || length > uint64(len(message)-m) {
				return
			}
			n = m + int(length)
			inside = message[m:n]
		case 5:
			n = 4
		default:
			return
		}
		if n > len(message) {
			return
		}
		message = message[n:]
		if p, ok := parts[tag>>3]; ok {
			*left -= p.size
			if p.message != nil {
				measure(inside, p.message, left)
			}
		}
	}
}

// part is a field of a message that takes memory outside the message's struct.
type part struct {
	size    int          // of each occurrence
	message reflect.Type // the struct of an embedded message; nil: it is none
}

var knownParts sync.Map // of map[uint64]part by reflect.Type

// partsOf returns the parts of the messages that decode into a struct, by number.
func partsOf(t reflect.Type) map[uint64]part {
	if known, ok := knownParts.Load(t); ok {
		return known.(map[uint64]part)
	}
	out := map[uint64]part{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		number, err := strconv.ParseUint(tag[1], 10, 32)
		if err != nil {
			continue
		}
		p := part{}
		inner := f.Type
		switch inner.Kind() {
		case reflect.Slice, reflect.Pointer:
			inner = inner.Elem()
			p.size = int(inner.Size())
		case reflect.Map:
			inner = inner.Elem()
			p.size = int(inner.Size()) + mapEntry
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
			p.size += int(inner.Size())
		}
		if inner.Kind() == reflect.Struct && f.Type.Kind() != reflect.Map {
			p.message = inner
		}
		if p != (part{}) {
			out[number] = p
		}
	}
	knownParts.Store(t, out)
	return out
}

// mapEntry is the memory of a map's entry with a string as its key, without the value.
const mapEntry = 48
