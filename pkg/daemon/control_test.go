package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestStateRoundTrip(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	if _, err := ReadState(p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the first: %v", err)
	}
	if err := os.MkdirAll(p.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, want := range []State{
		{PID: 7, Address: "https://127.0.0.1:6443", Parts: Parts, Started: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
		{PID: 8, Parts: []string{"kubelet"}},
	} {
		if err := writeState(p, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadState(p); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	if err := os.WriteFile(p.State, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an incomplete state: got %v, want that there is none", err)
	}
}

// TestStopDoesNotEndReusedPID checks that stop does not end a process that got the pid of a daemon that has ended.
func TestStopDoesNotEndReusedPID(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	if err := stop(t.Context(), p, false); err != nil {
		t.Errorf("no daemon ever: %v", err)
	}
	if err := os.MkdirAll(p.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeState(p, State{PID: os.Getpid()}); err != nil { // stop would end this test
		t.Fatal(err)
	}
	if err := stop(t.Context(), p, false); err != nil {
		t.Error(err)
	}
	if Running(p) {
		t.Error("there is no socket, and Running is true")
	}
}

func TestAll(t *testing.T) {
	dir := home(t)
	if all, err := All(); err != nil || len(all) != 0 {
		t.Errorf("without a home: %v, %v", all, err)
	}
	elsewhere := PathsIn("b", filepath.Join(t.TempDir(), "b"))
	for _, p := range []Paths{PathsOf("a"), elsewhere} {
		held, err := lock(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
		if err := linkHome(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "no-daemon"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := All()
	if err != nil || len(all) != 2 || all[0] != PathsOf("a") || all[1] != elsewhere {
		t.Errorf("got %+v, %v", all, err)
	}
}
