package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// TestUpFailsWithoutStore removes the store of a cluster that has run.
func TestUpFailsWithoutStore(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	if err := os.MkdirAll(p.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Name: "dev", Only: []string{"apiserver"}}
	err := errors.Join(cfg.complete(), cfg.writeSettings(p), writeState(p, State{Parts: []string{"apiserver"}}))
	if err != nil {
		t.Fatal(err)
	}
	open, err := stores.Find("badger")
	if err != nil {
		t.Fatal(err)
	}
	for _, emptied := range []bool{false, true} {
		if emptied {
			if err := os.Mkdir(p.Store, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := open(p); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "minikctl store restore") {
			t.Errorf("emptied %v: got error %v, want %v with the verbs that help", emptied, err, store.ErrDamaged)
		}
	}
}

// TestBackupAndRestore backs a stopped cluster's store up, deletes the store, and restores it.
func TestBackupAndRestore(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	write(t, lockPath(p))
	s, err := badger.Open(badger.Config{Dir: p.Store})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Write(t.Context(),
		store.Op{Key: "o/core/configmaps/default/good", Value: []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)},
		store.Op{Key: "o/core/configmaps/default/bad", Value: []byte("no object")})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	report, err := CheckStore(p)
	if err != nil || report.Objects != 2 || len(report.Damaged) != 1 || report.Damaged[0].Key != "o/core/configmaps/default/bad" {
		t.Errorf("check: %+v, %v, want 2 objects and the bad one", report, err)
	}
	sum, file, err := BackupStore(t.Context(), p, "", false, testTime)
	if err != nil || sum.Objects != 2 {
		t.Fatalf("backup: %+v, %v", sum, err)
	}
	mine := filepath.Join(t.TempDir(), "mine")
	write(t, mine)
	if _, _, err := BackupStore(t.Context(), p, mine, false, testTime); err == nil || !strings.Contains(err.Error(), mine+" exists already; --force overwrites it") {
		t.Errorf("backup to a file that exists: %v", err)
	}
	if b, err := os.ReadFile(mine); err != nil || string(b) != "x" {
		t.Errorf("the file that exists has %q, %v", b, err)
	}
	if sum, file, err := BackupStore(t.Context(), p, mine, true, testTime); err != nil || sum.Objects != 2 || file != mine {
		t.Errorf("backup over a file that exists: %+v in %s, %v", sum, file, err)
	}
	mistyped := filepath.Join(t.TempDir(), "none", "mine")
	if _, _, err := BackupStore(t.Context(), p, mistyped, true, testTime); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), mistyped+":") || exists(filepath.Dir(mistyped)) {
		t.Errorf("backup to a directory that does not exist: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(p.Store, "badger")); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckStore(p); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("check of a store without its database: got %v, want %v", err, store.ErrDamaged)
	}
	restored, from, kept, err := RestoreStore(p, "")
	if err != nil || restored != sum || from != file || kept == "" {
		t.Fatalf("restore: %+v of %s, kept %q, %v", restored, from, kept, err)
	}
	if report, err := CheckStore(p); err != nil || report.Objects != 2 || report.Revision <= sum.Revision {
		t.Errorf("check after the restore: %+v, %v", report, err)
	}
	if _, err := Down(t.Context(), p, DownOptions{Purge: true}); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(p.Data); err != nil || len(left) > 0 {
		t.Errorf("purge leaves %v, %v", left, err)
	}
}
