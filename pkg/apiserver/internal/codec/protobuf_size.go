package codec

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// maxDecoded bounds the memory that the structs and strings of a protobuf message take once decoded. A body of 3 MB could hold a
// million empty containers, each of which becomes a struct of several hundred bytes. What etcd can store takes a few times its size.
const maxDecoded = 32 << 20

// maxNested bounds the depth of a message, as that of JSON. The generated decoders recurse, and Go ends a program whose stack
// grows too large.
const maxNested = 10000

// The errors of messages that are not decoded.
var (
	errDecoded = fmt.Errorf("it takes more than %d bytes of memory", maxDecoded)
	errNested  = fmt.Errorf("it is nested more than %d levels deep", maxNested)
	errEntry   = fmt.Errorf("an entry of a map: %w", io.ErrUnexpectedEOF)
)

// checkDecoded returns an error for a message whose decoded form, a struct of type t, takes too much memory or is nested too deep, or
// whose maps have entries that reach beyond their end: the generated decoders accept those, and decode what follows the entry once
// as its value and once more as what it is, which takes time and memory exponential in the number of entries. It ignores what the
// decoders refuse.
func checkDecoded(message []byte, t reflect.Type) error {
	m := measurement{left: maxDecoded}
	return m.message(message, partsOf(t), 0)
}

// measurement measures a message.
type measurement struct{ left int }

// message subtracts from left the memory that the given parts of a message take outside its struct.
func (m *measurement) message(message []byte, parts map[int32]part, depth int) error {
	if depth > maxNested {
		return errNested
	}
	for len(message) > 0 {
		f, n := firstField(message)
		if n == 0 {
			return nil
		}
		message = message[n:]
		p, ok := parts[f.number]
		if !ok {
			continue
		}
		if m.left -= p.size; m.left < 0 {
			return errDecoded
		}
		var err error
		switch {
		case p.entry != nil:
			err = m.entry(f.content, p.entry, depth+1)
		case p.message != nil:
			err = m.message(f.content, partsOf(p.message), depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry is message for an entry of a map. Its key and its value have to end within it.
func (m *measurement) entry(entry []byte, parts map[int32]part, depth int) error {
	for rest := entry; len(rest) > 0; {
		f, n := firstField(rest)
		if n == 0 || f.number <= valueNumber && f.wire != wireBytes {
			return errEntry
		}
		rest = rest[n:]
	}
	return m.message(entry, parts, depth)
}

// wireBytes is the wire type of strings, bytes and messages, and valueNumber the number of the value in an entry of a map, behind the
// key's.
const (
	wireBytes   = 2
	valueNumber = 2
)

// wireField is a field of a message.
type wireField struct {
	number  int32
	wire    uint64
	content []byte // of wireBytes
}

// firstField returns the first field of a message and its length, 0 if the message ends within the field. Like the generated decoders
// it takes the low bits of a number that has too many. The begin and the end of a group are fields without content.
func firstField(message []byte) (f wireField, length int) {
	tag, n := varint(message)
	if n == 0 {
		return f, 0
	}
	f.number, f.wire = int32(tag>>3), tag&7 // as the decoders
	var size int
	switch f.wire {
	case 0:
		if _, size = varint(message[n:]); size == 0 {
			return f, 0
		}
	case 1:
		size = 8
	case wireBytes:
		l, m := varint(message[n:])
		if n += m; m == 0 || l > uint64(len(message)-n) {
			return f, 0
		}
		size = int(l)
		f.content = message[n : n+size]
	case 5:
		size = 4
	case 3, 4:
	default:
		return f, 0
	}
	if size > len(message)-n {
		return f, 0
	}
	return f, n + size
}

// varint returns the first number of a message and its length, 0 if there is none.
func varint(message []byte) (v uint64, length int) {
	for i := 0; i < min(len(message), binary.MaxVarintLen64); i++ {
		v |= uint64(message[i]&0x7f) << (7 * i)
		if message[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// part is a field of a message that takes memory outside the message's struct.
type part struct {
	size    int            // of each occurrence
	message reflect.Type   // the struct of an embedded message; nil: it is none
	entry   map[int32]part // the parts of an entry of a map; nil: it is none
}

var knownParts sync.Map // of map[int32]part by reflect.Type

// partsOf returns the parts of the messages that decode into a struct, by number.
func partsOf(t reflect.Type) map[int32]part {
	if known, ok := knownParts.Load(t); ok {
		return known.(map[int32]part)
	}
	out := map[int32]part{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		number, err := strconv.ParseInt(tag[1], 10, 32)
		if err != nil {
			continue
		}
		if p := partOf(f.Type); p.size > 0 || p.message != nil {
			out[int32(number)] = p
		}
	}
	knownParts.Store(t, out)
	return out
}

// partOf returns the part of a field of type t.
func partOf(t reflect.Type) part {
	p := part{}
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer:
		t = t.Elem()
		p.size = int(t.Size())
	case reflect.Map: // a value is decoded outside the map
		value := partOf(reflect.PointerTo(t.Elem()))
		return part{size: int(t.Elem().Size()) + mapEntry, entry: map[int32]part{valueNumber: value}}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		p.size += int(t.Size())
	}
	if t.Kind() == reflect.Struct {
		p.message = t
	}
	return p
}

// mapEntry is the memory of a map's entry with a string as its key, without the value.
const mapEntry = 48
