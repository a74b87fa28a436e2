package cli

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/daemon"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// TestLastSchedulerConfigError checks that the last Event about the scheduler's config decides, and that Events of an earlier run of the
// scheduler don't count.
func TestLastSchedulerConfigError(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 500, time.UTC)
	event := func(reason, version string, after time.Duration) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Reason: reason, Message: "message " + version,
			LastTimestamp: metav1.NewTime(start.Add(after).Truncate(time.Second)),
		}
	}
	const invalid, applied = "SchedulerConfigInvalid", "SchedulerConfigApplied"
	for _, c := range []struct {
		name   string
		events []corev1.Event
		want   string
	}{
		{"none", nil, ""},
		{"refused", []corev1.Event{event(invalid, "9", 0)}, "message 9"},
		{"applied after a refusal in the same second", []corev1.Event{event(applied, "10", 0), event(invalid, "9", 0)}, ""},
		{"refused again in the same second", []corev1.Event{event(applied, "9", 0), event(invalid, "10", 0), event(invalid, "8", 0)}, "message 10"},
		{"refused before the start", []corev1.Event{event(invalid, "9", -time.Minute)}, ""},
		{"another Event of the namespace", []corev1.Event{event(invalid, "9", 0), event("Other", "10", time.Minute)}, "message 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := lastRefusal(c.events, start); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if got, err := lastRefusal([]corev1.Event{event(invalid, "9", -time.Minute)}, time.Time{}); err != nil || got != "message 9" {
		t.Errorf("scheduler in another process: got %q, %v", got, err)
	}
}

// TestStatusOfHungServer checks that status ends its requests to a server that does not respond with the first one.
func TestStatusOfHungServer(t *testing.T) {
	p := daemon.Paths{Socket: filepath.Join(t.TempDir(), "s")}
	l, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	conditions, notes := serverStatus(ctx, p, daemon.State{Parts: daemon.Parts})
	if conditions != ", does not respond" || !slices.Equal(notes, []string{"the API server has not responded for 5s"}) {
		t.Errorf("got %q, %q", conditions, notes)
	}
}

func TestCorruptNotes(t *testing.T) {
	got := strings.Join(corruptNotes([]minikctl.CorruptObject{
		{Resource: "secrets", Namespace: "default", Object: "x", Message: "unexpected EOF"}, {Resource: "nodes", Object: "n", Message: "invalid JSON"},
	}), "\n")
	for _, want := range []string{"2 objects in the store cannot be decoded", "\n  secrets default/x: unexpected EOF", "\n  nodes n: invalid JSON"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
