package cli

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
)

// TestSecondSIGTERM sends SIGTERM again and again, as several downs do. It must not end the process, which is this one.
func TestSecondSIGTERM(t *testing.T) {
	ctx, stop := untilSignal(t.Context())
	defer stop()
	const signals = 1000 // the first one has its effects meanwhile
	for i := range signals {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-ctx.Done()
		}
		runtime.Gosched()
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM) // for the last of them, which may arrive after stop
}
