package trace

import (
	"reflect"
	"testing"
)

// FuzzDecode decodes headers. A decoded report is within the bounds, and encodes to a header that decodes to the same
// report.
func FuzzDecode(f *testing.F) {
	f.Add(Report{}.Encode())
	f.Add(`{"actor":"a","causes":[1,2,3]}`)
	f.Add(`{"causes":[-1,1e30]}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, header string) {
		r, err := Decode(header)
		if err != nil {
			return
		}
		if len(r.Causes) > maxCauses {
			t.Errorf("%d causes", len(r.Causes))
		}
		again, err := Decode(r.Encode())
		if err != nil || again.Encode() != r.Encode() || !reflect.DeepEqual(again.Causes, r.Causes) && len(r.Causes) > 0 {
			t.Errorf("%v: %+v is encoded as %s", err, r, r.Encode())
		}
	})
}
