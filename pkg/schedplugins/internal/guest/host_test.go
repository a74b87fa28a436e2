package guest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"golang.org/x/time/rate"
)

// TestWrite checks that a value is written only if it is not larger than the module's buffer, and never outside of its memory.
func TestWrite(t *testing.T) {
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	m, err := runtime.Instantiate(t.Context(), []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06memory\x02\x00")) // a memory of one page
	if err != nil {
		t.Fatal(err)
	}
	memory := func() string { b, _ := m.Memory().Read(8, 3); return string(b) }
	if n := write(m, 8, 2, []byte("abc")); n != 3 || memory() != "\x00\x00\x00" {
		t.Errorf("a value of 3 bytes for a buffer of 2: %d, %q", n, memory())
	}
	if n := write(m, 8, 3, []byte("abc")); n != 3 || memory() != "abc" {
		t.Errorf("a value of 3 bytes for a buffer of 3: %d, %q", n, memory())
	}
	defer func() {
		if recover() == nil {
			t.Error("a buffer outside of the memory is written")
		}
	}()
	write(m, pageSize-1, 3, []byte("abc"))
}

// TestLog checks that a module cannot fill the log, neither by many messages nor by long ones.
func TestLog(t *testing.T) {
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	m, err := runtime.Instantiate(t.Context(), []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06memory\x02\x00")) // a memory of one page
	if err != nil {
		t.Fatal(err)
	}
	m.Memory().Write(0, []byte(strings.Repeat("a", logBytes)+"b"))
	m.Memory().Write(2*logBytes, []byte("key\x00value\x00"))
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)

	h := &host{Config{Severity: 1}, rate.NewLimiter(0, 2)}
	h.log(t.Context(), m, []uint64{0, 0, 1}, nil) // less severe
	h.log(t.Context(), m, []uint64{2, 0, logBytes + 1}, nil)
	h.log(t.Context(), m, []uint64{1, 0, 1}, []uint64{2 * logBytes, 10})
	h.log(t.Context(), m, []uint64{3, 0, 1}, nil) // one more than allowed
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "text="+strings.Repeat("a", logBytes)+` values=""`) || !strings.Contains(lines[0], "level=ERROR") ||
		!strings.HasSuffix(lines[1], `text=a values="key value"`) {
		t.Errorf("%d lines: %.2000s", len(lines), text.String())
	}
}

// TestEvents checks the events in the encoding of the ABI, whose sets of actions are those of an older Kubernetes.
func TestEvents(t *testing.T) {
	got := clusterEvents([]byte{0, 0, 0, 0, 63, 0, 0, 0, 1, 0, 0, 0, 60, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 99, 0, 0, 0, 1, 0, 0, 0, 1})
	text := ""
	for _, e := range got {
		text += string(e.Resource) + " " + e.ActionType.String() + "; "
	}
	if want := "Pod All; Node Update; storage.k8s.io/StorageClass Delete; "; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
