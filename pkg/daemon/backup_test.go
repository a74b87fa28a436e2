package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/store/memory"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestBackupsAreBounded makes backups an hour apart, with one limit each.
func TestBackupsAreBounded(t *testing.T) {
	s := memory.New()
	defer s.Close()
	for name, c := range map[string]struct {
		config BackupConfig
		want   int
	}{
		"number": {BackupConfig{Keep: 3}, 3},
		"age":    {BackupConfig{Keep: 100, MaxAge: metav1.Duration{Duration: 90 * time.Minute}}, 2},
		"size":   {BackupConfig{Keep: 100, MaxSize: resource.MustParse("1")}, 1},
	} {
		clk := clocktesting.NewFakeClock(testTime)
		c.config.Every = metav1.Duration{Duration: time.Hour}
		if err := c.config.complete(); err != nil {
			t.Fatal(err)
		}
		b := backups{c.config, filepath.Join(t.TempDir(), "backups"), s, clk}
		if err := b.make(t.Context()); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(b.dir, "before-upgrade.backup")
		if err := os.WriteFile(own, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			clk.Step(time.Hour)
			if err := b.make(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all, err := filepath.Glob(filepath.Join(b.dir, "2026*.backup"))
		if err != nil || len(all) != c.want || !exists(own) {
			t.Errorf("%s: %d backups are kept, want %d and the user's own file; %v", name, len(all), c.want, err)
		}
	}
}

// TestUnfinishedBackups makes a backup in a directory where processes that were killed, and one that runs, have left unfinished ones.
func TestUnfinishedBackups(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := backups{BackupConfig{Keep: 1}, t.TempDir(), s, clocktesting.NewFakeClock(testTime)}
	if err := b.complete(); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{
		backupName(testTime.Add(-2*time.Hour)) + unfinished: false,
		backupName(testTime.Add(-time.Minute)) + unfinished: true,
		"before-upgrade.backup" + unfinished:                true,
	} {
		path := filepath.Join(b.dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.make(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exists(path) != stays {
			t.Errorf("%s: is there: %t, want %t", name, !stays, stays)
		}
	}
}
