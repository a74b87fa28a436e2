// Package message encodes structs in the wire format of protobuf, which takes a fraction of the time of JSON. The number of a field
// is in its tag, as in generated types: `protobuf:"bytes,3"`. Fields without such a tag are not encoded.
//
// A field is a bool, a string, an integer, a time, a struct, a type with the methods Marshal and Unmarshal of Kubernetes' types, or a
// pointer to or a slice of one of these. A field that has its zero value takes no space, so an empty slice can't be told from nil: it
// decodes as what its JSON has, which is nil where the JSON omits it, and an empty slice otherwise.
package message

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// Marshal returns the message of the struct that v points to.
func Marshal(v any) ([]byte, error) {
	s := reflect.ValueOf(v).Elem()
	p := planOf(s.Type())
	b, err := p.append(make([]byte, 0, p.last.Load()), s)
	p.last.Store(int64(len(b)))
	return b, err
}

// Unmarshal decodes a message into the struct that v points to, which has its zero value. Unknown fields are ignored.
func Unmarshal(b []byte, v any) error {
	s := reflect.ValueOf(v).Elem()
	return planOf(s.Type()).decode(b, s)
}

// append appends the content of the message of s to b.
func (p *plan) append(b []byte, s reflect.Value) (_ []byte, err error) {
	for i := range p.fields {
		f := &p.fields[i]
		v := s.Field(f.index)
		switch f.shape {
		case repeated:
			for j := range v.Len() {
				if b, err = f.append(b, v.Index(j)); err != nil {
					return nil, err
				}
			}
			continue
		case optional:
			if v.IsNil() {
				continue
			}
			b, err = f.append(b, v.Elem())
		default:
			start := len(b)
			if b, err = f.append(b, v); err == nil && b[len(b)-1] == 0 && len(b) == start+f.tagSize+1 {
				b = b[:start] // a zero, or no content
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// append appends the tag and the value of the field to b.
func (f *field) append(b []byte, v reflect.Value) ([]byte, error) {
	b = protowire.AppendTag(b, f.number, f.codec.wire)
	if f.codec.wire == protowire.VarintType {
		return protowire.AppendVarint(b, f.codec.number(v)), nil
	}
	start := len(b)
	b, err := f.codec.content(append(b, 0), v) // room for the size of a short content
	if err != nil {
		return nil, err
	}
	size := len(b) - start - 1
	if extra := protowire.SizeVarint(uint64(size)) - 1; extra > 0 {
		b = append(b, make([]byte, extra)...)
		copy(b[start+1+extra:], b[start+1:start+1+size])
	}
	protowire.AppendVarint(b[:start], uint64(size))
	return b, nil
}

// decode sets the fields of s from a message.
func (p *plan) decode(b []byte, s reflect.Value) error {
	for i := range p.fields {
		if f := &p.fields[i]; f.empty.IsValid() {
			s.Field(f.index).Set(f.empty)
		}
	}
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		f := p.field(number)
		if f == nil {
			size := protowire.ConsumeFieldValue(number, wire, b[n:])
			if size < 0 {
				return fmt.Errorf("field %d: %w", number, protowire.ParseError(size))
			}
			b = b[n+size:]
			continue
		}
		if wire != f.codec.wire {
			return fmt.Errorf("field %d has the wire type %d, not %d", number, wire, f.codec.wire)
		}
		v, err := f.place(s.Field(f.index), b)
		if err != nil {
			return err
		}
		if b, err = f.codec.consume(b[n:], v); err != nil {
			return fmt.Errorf("field %d: %w", number, err)
		}
	}
	return nil
}

// place returns where the next value of the field is decoded to. rest begins with the value's tag.
func (f *field) place(v reflect.Value, rest []byte) (reflect.Value, error) {
	switch f.shape {
	case repeated:
		n := v.Len()
		if n == v.Cap() {
			v.Grow(f.run(rest))
		}
		v.SetLen(n + 1)
		return v.Index(n), nil
	case optional:
		v.Set(reflect.New(v.Type().Elem()))
		return v.Elem(), nil
	}
	return v, nil
}

// run returns how many values of the field follow each other at the start of a message.
func (f *field) run(b []byte) int {
	for n := 0; ; n++ {
		number, wire, tag := protowire.ConsumeTag(b)
		if tag < 0 || number != f.number {
			return max(n, 1)
		}
		value := protowire.ConsumeFieldValue(number, wire, b[tag:])
		if value < 0 {
			return max(n, 1)
		}
		b = b[tag+value:]
	}
}

// consume decodes the value at the start of b into v, and returns the rest of b.
func (c *codec) consume(b []byte, v reflect.Value) ([]byte, error) {
	if c.wire == protowire.VarintType {
		x, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		return b[n:], c.setNumber(v, x)
	}
	content, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	return b[n:], c.setContent(v, content)
}
