package virtual

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
)

// TestSavedEntriesAreCompressed reads entries before and after they are saved, and expects the same JSON.
func TestSavedEntriesAreCompressed(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	defer s.Close()
	for i := range 3 * blockEntries {
		s.Span(span(uint64(i + 1)))
	}
	texts := func() (out [][]byte) {
		l, err := s.List(t.Context(), request(s, "traces", "", ""), &metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range l.Items {
			b, err := it.Encoded(cache.JSON, nil)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
		return out
	}
	before := texts()
	s.save(t.Context())
	entries, _ := s.recent.after(0)
	block := entries[0].text.Load().block
	if block == nil {
		t.Fatal("a saved entry is not compressed")
	}
	if size := len(before) * len(before[0]); len(block.bytes) > size/4 {
		t.Errorf("%d bytes of JSON take %d bytes", size, len(block.bytes))
	}
	after := texts()
	for i := range before {
		if !bytes.Equal(before[i], after[i]) {
			t.Fatalf("entry %d was %s, is %s", i, before[i], after[i])
		}
	}
	if e := entries[len(entries)-1]; e.text.Load().block != block {
		t.Error("the entries of one save do not share a block")
	}
}
