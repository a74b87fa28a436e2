package logs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/clock"
)

// setUp sets the log up for the test.
func setUp(t *testing.T, to io.Writer) {
	t.Helper()
	before := slog.Default()
	if err := SetUp(to, clock.Real(), "info"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Store(nil)
		slog.SetDefault(before)
		klog.ClearLogger()
		if err := setVerbosity("0"); err != nil {
			t.Error(err)
		}
	})
}

// TestVerbosity sets verbosities, and checks the responses and which lines the log has afterwards.
func TestVerbosity(t *testing.T) {
	var text bytes.Buffer
	setUp(t, &text)
	for _, c := range []struct {
		method, body string
		code         int
		response     string
		debug, klog4 bool
	}{
		{"PUT", "4", 200, "successfully set klog.logging.verbosity to 4\n", true, true},
		{"PUT", "3", 200, "successfully set klog.logging.verbosity to 3\n", false, false},
		{"PUT", "10", 200, "successfully set klog.logging.verbosity to 10\n", true, true},
		{"PUT", "x", 400, "strconv.ParseUint: parsing \"x\": invalid syntax\n", true, true},
		{"PUT", "-1", 400, "strconv.ParseUint: parsing \"-1\": invalid syntax\n", true, true},
		{"PUT", "4294967295", 400, "failed set klog.logging.verbosity 4294967295: strconv.ParseInt: parsing \"4294967295\": value out of range\n", true, true},
		{"PUT", strings.Repeat("1", 101), 400, "error reading request body: http: request body too large\n", true, true},
		{"GET", "", 406, "unsupported http method\n", true, true},
		{"POST", "0", 406, "unsupported http method\n", true, true},
		{"PUT", "0", 200, "successfully set klog.logging.verbosity to 0\n", false, false},
	} {
		w := httptest.NewRecorder()
		Flags(w, httptest.NewRequest(c.method, "/debug/flags/v", strings.NewReader(c.body)))
		if w.Code != c.code || w.Body.String() != c.response {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.body, w.Code, w.Body, c.code, c.response)
		}
		text.Reset()
		slog.Info("always")
		slog.Debug("detail")
		klog.V(4).Info("library")
		got := text.String()
		if !strings.Contains(got, "always") || strings.Contains(got, "detail") != c.debug || strings.Contains(got, "library") != c.klog4 {
			t.Errorf("%s %s: log %s", c.method, c.body, got)
		}
	}
}

func TestIndex(t *testing.T) {
	w := httptest.NewRecorder()
	Flags(w, httptest.NewRequest("GET", "/debug/flags/", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "flags:<br>\n<table>\n<tr>v<br>\n</table>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLevel(t *testing.T) {
	if err := SetUp(io.Discard, clock.Real(), "chatty"); err == nil || !strings.HasPrefix(err.Error(), "log level: ") {
		t.Errorf("got error %v", err)
	}
}

// TestCheck checks the health of a log whose reader stops reading, and reads on.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		setUp(t, write)
		check := func(want string) {
			t.Helper()
			got := ""
			if err := Check.Run(context.Background()); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		check("")
		logged := make(chan struct{})
		go func() {
			slog.Info("line")
			close(logged)
		}()
		time.Sleep(2*time.Minute - time.Second) // of the bubble's clock
		check("")
		time.Sleep(time.Second)
		check("logging blocked")
		if _, err := read.Read(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		<-logged
		check("")
	})
}
