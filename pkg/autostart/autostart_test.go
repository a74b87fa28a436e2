package autostart

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNeeds(t *testing.T) {
	for verb, want := range map[string]bool{
		"get": true, "apply": true, "run": true, "trace": true,
		"version": false, "help": false, "completion": false, "__complete": false, "": false, "up": false, "down": false, "status": false, "gett": false,
	} {
		if got := NeedsCluster(verb); got != want {
			t.Errorf("%q: got %v", verb, got)
		}
	}
}

func TestCheck(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, want string) {
		t.Helper()
		err := Check(home, name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	check(DefaultName, "")
	check("typo", `there is no cluster "typo"; create it with: minikctl up -d --name typo`)
	write(filepath.Join(home, "two", LockFile), "")
	check("two", "")
	write(filepath.Join(home, "directory", "x"), "")
	check("directory", `there is no cluster "directory"`)
	if err := RecordFailedUp(home, DefaultName, errors.New("no such part")); err != nil {
		t.Fatal(err)
	}
	check(DefaultName, `no daemon "minikctl" runs, and the last up failed: no such part`+"\nstart it with: minikctl up -d")
	check("two", "")
	t.Setenv("MINIKCTL_AUTOSTART", "false")
	check("two", `no daemon "two" runs; start it with: minikctl up -d --name two`)
}
