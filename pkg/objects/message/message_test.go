package message

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type all struct {
	Text     string            `json:"text" protobuf:"bytes,1"`
	Whole    int64             `json:"whole" protobuf:"varint,2"`
	Count    uint64            `json:"count" protobuf:"varint,3"`
	Yes      bool              `json:"yes" protobuf:"varint,4"`
	At       time.Time         `json:"at" protobuf:"bytes,5"`
	Part     part              `json:"part" protobuf:"bytes,16"`
	Maybe    *part             `json:"maybe" protobuf:"bytes,17"`
	Parts    []part            `json:"parts" protobuf:"bytes,18"`
	Texts    []string          `json:"texts,omitempty" protobuf:"bytes,19"`
	Counts   []uint64          `json:"counts,omitempty" protobuf:"varint,20"`
	Meta     metav1.ObjectMeta `json:"meta" protobuf:"bytes,300"`
	Unknown  string            // has no number
	Duration time.Duration     `json:"duration" protobuf:"varint,7"`
}

type part struct {
	Name   string `json:"name" protobuf:"bytes,1"`
	Number int    `json:"number" protobuf:"varint,2"`
}

func TestRoundTrip(t *testing.T) {
	east := time.FixedZone("", 2*60*60)
	for name, in := range map[string]all{
		"empty":       {},
		"zeros":       {Parts: []part{{}, {}}, Texts: []string{"", "a", ""}, Counts: []uint64{0, 1, 0}, Maybe: &part{}},
		"bounds":      {Whole: math.MinInt64, Count: math.MaxUint64, Duration: math.MaxInt64, Part: part{Number: -1}},
		"long":        {Text: strings.Repeat("x", 127), Part: part{Name: strings.Repeat("x", 128)}, Parts: []part{{Name: strings.Repeat("x", 1<<21)}, {Name: "y"}}},
		"an offset":   {At: time.Date(2026, 11, 26, 1, 2, 3, 4, east)},
		"UTC":         {At: time.Date(2026, 11, 26, 1, 2, 3, 4, time.UTC), Yes: true},
		"Kubernetes'": {Meta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}, Generation: 300}},
	} {
		b, err := Marshal(&in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var out all
		if err := Unmarshal(b, &out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if in.Parts == nil {
			in.Parts = []part{} // as its JSON is not omitted
		}
		if !in.At.Equal(out.At) || in.At.String() != out.At.String() {
			t.Errorf("%s: time %v, want %v", name, out.At, in.At)
		}
		in.At, out.At = time.Time{}, time.Time{}
		if !reflect.DeepEqual(in, out) {
			t.Errorf("%s: got %+v, want %+v", name, out, in)
		}
	}
}

// The generated methods of a type with numbers and this package decode each other's messages.
func TestGenerated(t *testing.T) {
	in := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "u", Controller: new(true), BlockOwnerDeletion: new(false)}
	ours, err := Marshal(&in)
	if err != nil {
		t.Fatal(err)
	}
	var out metav1.OwnerReference
	if err := out.Unmarshal(ours); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("generated methods: %v, %v", out, err)
	}
	theirs, err := in.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out = metav1.OwnerReference{}
	if err := Unmarshal(theirs, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("Unmarshal: %v, %v", out, err)
	}
}

// A field that a newer program has added is ignored.
func TestUnknownField(t *testing.T) {
	b, err := Marshal(&all{Text: "a", Whole: 5, Parts: []part{{Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Whole int64 `json:"whole" protobuf:"varint,2"`
	}
	if err := Unmarshal(b, &out); err != nil || out.Whole != 5 {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestDamaged(t *testing.T) {
	b, err := Marshal(&all{Text: "ab", Whole: 300, Parts: []part{{Name: "b", Number: 300}}, At: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var whole int
	for i := range b {
		if Unmarshal(b[:i], new(all)) == nil {
			whole++ // it ends between two fields
		}
	}
	if whole != 5 {
		t.Errorf("%d beginnings of the message are messages, want 5", whole)
	}
	for _, b := range [][]byte{
		{0x08, 0x01},             // text as a number
		{0x12, 0x01, 0x00},       // whole as a text
		{0x2a, 0x01, 0x07},       // no time
		{0x82, 0x01, 0x01, 0x08}, // a part that ends in a field
		{0x62, 0x02, 0x00},       // an unknown field that is cut off
		{0x00},                   // field 0
	} {
		if err := Unmarshal(b, new(all)); err == nil {
			t.Errorf("% x is decoded", b)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	b, err := Marshal(&all{Text: "ab", Whole: 300, Parts: []part{{Name: "b"}, {Number: 3}}, Texts: []string{"a", "b"}, Maybe: &part{Name: "c"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second all
		if Unmarshal(b, &first) != nil {
			return
		}
		again, err := Marshal(&first)
		if err != nil {
			t.Skip("a time with an offset of days can be decoded and not encoded: ", err)
		}
		if err := Unmarshal(again, &second); err != nil {
			t.Fatal(err)
		}
	})
}
