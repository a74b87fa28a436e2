package message

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// plan is how a struct is encoded.
type plan struct {
	fields   []field
	byNumber []*field
	last     atomic.Int64 // the size of the last message, as a guess at that of the next one
}

// field is a field of a struct.
type field struct {
	index   int // in the struct
	number  protowire.Number
	tagSize int
	shape   shape
	codec   *codec        // of its value, of the values of a slice, or of what it points to
	empty   reflect.Value // of a slice whose JSON is not omitted when it is empty; otherwise invalid
}

// shape is how many values a field has.
type shape uint8

const (
	single shape = iota
	optional
	repeated
)

// codec encodes values of a type: as a number, or as a content with a size in front of it.
type codec struct {
	wire protowire.Type

	number    func(v reflect.Value) uint64
	setNumber func(v reflect.Value, x uint64) error

	content    func(b []byte, v reflect.Value) ([]byte, error) // appends it to b
	setContent func(v reflect.Value, content []byte) error
}

func (p *plan) field(number protowire.Number) *field {
	if int(number) >= len(p.byNumber) {
		return nil
	}
	return p.byNumber[number]
}

var plans sync.Map // of *plan by reflect.Type

// planOf returns the plan of a struct. It panics for a struct that can't be encoded, which is a mistake in its declaration.
func planOf(t reflect.Type) *plan {
	if known, ok := plans.Load(t); ok {
		return known.(*plan)
	}
	p := &plan{}
	for i := range t.NumField() {
		if f, ok := fieldOf(t, i); ok {
			p.fields = append(p.fields, f)
		}
	}
	for i := range p.fields {
		f := &p.fields[i]
		for int(f.number) >= len(p.byNumber) {
			p.byNumber = append(p.byNumber, nil)
		}
		if p.byNumber[f.number] != nil {
			panic(fmt.Sprintf("%v has two fields %d", t, f.number))
		}
		p.byNumber[f.number] = f
	}
	known, _ := plans.LoadOrStore(t, p)
	return known.(*plan)
}

// maxNumber bounds the numbers of fields, for which a plan has a table.
const maxNumber = 1000

// fieldOf returns the field of a struct with an index; ok is false if it is not encoded.
func fieldOf(t reflect.Type, index int) (f field, ok bool) {
	decl := t.Field(index)
	tag := strings.Split(decl.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return field{}, false
	}
	number, err := strconv.Atoi(tag[1])
	if err != nil || number < 1 || number > maxNumber {
		panic(fmt.Sprintf("%v.%s has the number %q", t, decl.Name, tag[1]))
	}
	f = field{index: index, number: protowire.Number(number), tagSize: protowire.SizeTag(protowire.Number(number))}
	of := decl.Type
	switch of.Kind() {
	case reflect.Slice:
		f.shape, of = repeated, of.Elem()
		if !strings.Contains(decl.Tag.Get("json"), ",omitempty") {
			f.empty = reflect.MakeSlice(decl.Type, 0, 0)
		}
	case reflect.Pointer:
		f.shape, of = optional, of.Elem()
	}
	if f.codec = codecOf(of); f.codec == nil {
		panic(fmt.Sprintf("%v.%s is a %v, which can't be encoded", t, decl.Name, decl.Type))
	}
	return f, true
}

// codecOf returns the codec of a type, nil if there is none.
func codecOf(t reflect.Type) *codec {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &codec{wire: protowire.BytesType, content: appendTime, setContent: setTime}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[generated]()):
		return &codec{wire: protowire.BytesType, content: appendGenerated, setContent: setGenerated}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &codec{wire: protowire.VarintType, number: boolNumber, setNumber: setBool}
	case reflect.Int, reflect.Int64:
		return &codec{wire: protowire.VarintType, number: func(v reflect.Value) uint64 { return uint64(v.Int()) }, setNumber: setInt}
	case reflect.Uint64:
		return &codec{
			wire: protowire.VarintType, number: reflect.Value.Uint,
			setNumber: func(v reflect.Value, x uint64) error { v.SetUint(x); return nil },
		}
	case reflect.String:
		return &codec{
			wire:       protowire.BytesType,
			content:    func(b []byte, v reflect.Value) ([]byte, error) { return append(b, v.String()...), nil },
			setContent: func(v reflect.Value, content []byte) error { v.SetString(string(content)); return nil },
		}
	case reflect.Struct:
		p := planOf(t)
		return &codec{
			wire: protowire.BytesType, content: p.append,
			setContent: func(v reflect.Value, content []byte) error { return p.decode(content, v) },
		}
	}
	return nil
}

func boolNumber(v reflect.Value) uint64 { return protowire.EncodeBool(v.Bool()) }

func setBool(v reflect.Value, x uint64) error {
	v.SetBool(protowire.DecodeBool(x))
	return nil
}

func setInt(v reflect.Value, x uint64) error {
	if v.OverflowInt(int64(x)) {
		return fmt.Errorf("%d is too large", int64(x))
	}
	v.SetInt(int64(x))
	return nil
}

// appendTime appends a time with its offset from UTC, which its JSON has, too.
func appendTime(b []byte, v reflect.Value) ([]byte, error) {
	t := v.Addr().Interface().(*time.Time)
	if t.IsZero() {
		return b, nil
	}
	return t.AppendBinary(b)
}

func setTime(v reflect.Value, content []byte) error {
	if len(content) == 0 {
		return nil
	}
	return v.Addr().Interface().(*time.Time).UnmarshalBinary(content)
}

// generated are Kubernetes' types with generated methods.
type generated interface {
	Marshal() ([]byte, error)
	Unmarshal(content []byte) error
}

func appendGenerated(b []byte, v reflect.Value) ([]byte, error) {
	content, err := v.Addr().Interface().(generated).Marshal()
	return append(b, content...), err
}

func setGenerated(v reflect.Value, content []byte) error {
	return v.Addr().Interface().(generated).Unmarshal(content)
}
