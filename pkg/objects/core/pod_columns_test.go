package core

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPodColumns(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, pod string
		want      string // ready, status, restarts
	}{
		{"new", `status: {phase: Pending}`, "0/1 Pending 0"},
		{"gated", `status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`, "0/1 SchedulingGated 0"},
		{"creating", `status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}`, "0/1 ContainerCreating 0"},
		{"running", `status: {phase: Running, containerStatuses: [{name: c, ready: true, state: {running: {}}}]}`, "1/1 Running 0"},
		{"crashed", `status: {phase: Running, containerStatuses: [{name: c, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, finishedAt: "2026-01-01T11:59:20Z"}}}]}`,
			"0/1 CrashLoopBackOff 3 (40s ago)"},
		{"ended by a signal", `status: {phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 137, signal: 9}}}]}`, "0/1 Signal:9 0"},
		{"ended", `status: {phase: Succeeded, containerStatuses: [{name: c, state: {terminated: {exitCode: 0, reason: Completed}}}]}`, "0/1 Completed 0"},
		{"one ended, one runs", `
spec: {containers: [{name: c, image: i}, {name: d, image: i}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: c, state: {terminated: {reason: Completed}}}, {name: d, ready: true, state: {running: {}}}]}`,
			"1/2 Running 0"},
		{"one ended, one runs, not ready", `
spec: {containers: [{name: c, image: i}, {name: d, image: i}]}
status: {phase: Running, containerStatuses: [{name: c, state: {terminated: {reason: Completed}}}, {name: d, ready: true, state: {running: {}}}]}`,
			"1/2 NotReady 0"},
		{"init container waits", `
spec: {initContainers: [{name: a, image: i}, {name: b, image: i}]}
status: {phase: Pending, initContainerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}, {name: b, state: {waiting: {reason: PodInitializing}}}]}`,
			"0/1 Init:1/2 0"},
		{"init container failed", `
spec: {initContainers: [{name: a, image: i}]}
status: {phase: Pending, initContainerStatuses: [{name: a, restartCount: 2, state: {terminated: {exitCode: 4}}}]}`,
			"0/1 Init:ExitCode:4 2"},
		{"sidecar", `
spec: {initContainers: [{name: s, image: i, restartPolicy: Always}]}
status: {phase: Running, initContainerStatuses: [{name: s, started: true, ready: true, restartCount: 1, state: {running: {}}}], containerStatuses: [{name: c, ready: true, state: {running: {}}}]}`,
			"2/2 Running 1"},
		{"deleted", "metadata: {deletionTimestamp: \"2026-01-01T11:59:20Z\"}\nstatus: {phase: Running, containerStatuses: [{name: c, ready: true, state: {running: {}}}]}", "1/1 Terminating 0"},
		{"lost", "metadata: {deletionTimestamp: \"2026-01-01T11:59:20Z\"}\nstatus: {phase: Running, reason: NodeLost}", "0/1 Unknown 0"},
		{"evicted", `status: {phase: Failed, reason: Evicted}`, "0/1 Evicted 0"},
	}
	for _, tt := range tests {
		p := read(t, tt.pod)
		var cells []string
		for _, c := range podColumns[1:4] {
			cells = append(cells, fmt.Sprint(c.Cell(p, now)))
		}
		if got := strings.Join(cells, " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
