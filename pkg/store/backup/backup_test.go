package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestDamagedBackup cuts a backup at each length and flips each byte: none is read without an error, but for flips in gzip's
// header, which hold nothing of the backup.
func TestDamagedBackup(t *testing.T) {
	s := memory.New()
	defer s.Close()
	for i := range 5 {
		if _, err := s.Write(t.Context(), store.Op{Key: fmt.Sprint("k/", i), Value: []byte("value")}); err != nil {
			t.Fatal(err)
		}
	}
	var whole bytes.Buffer
	if _, err := backup.Write(t.Context(), s, &whole); err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) (string, error) {
		var all string
		_, err := backup.Read(bytes.NewReader(b), func(e store.Entry) error { all += fmt.Sprint(e); return nil })
		return all, err
	}
	want, err := read(whole.Bytes())
	if err != nil || want == "" {
		t.Fatalf("the whole backup: %q, %v", want, err)
	}
	for i := range whole.Len() {
		if _, err := read(whole.Bytes()[:i]); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("cut to %d bytes: got %v, want %v", i, err, backup.ErrDamaged)
		}
		flipped := bytes.Clone(whole.Bytes())
		flipped[i] ^= 1
		if got, err := read(flipped); err == nil && got != want {
			t.Errorf("byte %d flipped: read without an error, and differs", i)
		}
	}
}
