package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	a, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	big := strings.Repeat("x", 3<<20)
	sent := make(chan error, 1)
	go func() {
		err := errors.Join(
			a.Send(Request{Op: Start, Spec: &Spec{ID: "1", Env: []string{big}}}, w),
			a.Send(Request{Op: Stop, ID: "2"}),
			w.Close(), a.Close())
		sent <- err
	}()
	var got Request
	files, err := b.Receive(&got)
	if err != nil || len(files) != 1 || got.Spec == nil || got.Spec.Env[0] != big {
		t.Fatalf("got %v files, %v", len(files), err)
	}
	if _, err := files[0].WriteString("through"); err != nil {
		t.Fatal(err)
	}
	CloseFiles(files)
	got = Request{}
	if files, err := b.Receive(&got); err != nil || len(files) != 0 || got.Op != Stop || got.ID != "2" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := b.Receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if s, err := io.ReadAll(r); err != nil || string(s) != "through" {
		t.Errorf("got %q, %v", s, err)
	}
}

func TestListen(t *testing.T) {
	for _, name := range []string{"s", strings.Repeat("long/", 40) + "s"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second replaces the socket of the first
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan error, 2)
			go func() {
				c, err := l.Accept()
				accepted <- err
				if err == nil {
					c.Close()
				}
				_, err = l.Accept()
				accepted <- err
			}()
			c, err := Dial(path)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			l.Close()
			if err := <-accepted; !errors.Is(err, os.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	}
}

func TestErrorsOverTheWire(t *testing.T) {
	err := Failed(errors.Join(ErrRunning)).Err()
	if !errors.Is(err, ErrRunning) || errors.Is(err, ErrNotFound) || err.Error() != ErrRunning.Error() {
		t.Errorf("got %v", err)
	}
	if err := (Reply{}).Err(); err != nil {
		t.Errorf("got %v", err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"Op":"stop","ID":"x"}`), true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, body []byte, framed bool) {
		if len(body) > 1<<16 {
			return
		}
		a, file, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		b, err := FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if framed {
			body = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
		}
		go func() {
			_, _ = a.file.Write(body)
			a.Close()
		}()
		for {
			var r Request
			if _, err := b.Receive(&r); err != nil {
				return
			}
		}
	})
}
