package bootstrap

import (
	"testing"
	"time"
)

func TestCreationDelay(t *testing.T) {
	for _, tt := range []struct {
		name string
		last time.Time
		want time.Duration
	}{
		{"the first", time.Time{}, 0},
		{"after a minute", repairTime.Add(-time.Minute), 29 * time.Minute},
		{"after half an hour", repairTime.Add(-30 * time.Minute), 0},
		{"after a day", repairTime.Add(-24 * time.Hour), 0},
	} {
		if got := creationDelay(tt.last, repairTime); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
