package supervisor

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// TestEndAllDuringStart ends all containers while one is being started: no other one starts, and the supervisor stays until that start is over.
func TestEndAllDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &container{spec: &wire.Spec{ID: "starting"}, launched: make(chan struct{}), ended: make(chan struct{})}
		s := &supervisor{containers: map[string]*container{"starting": c}}
		ended := make(chan error, 1)
		go func() { ended <- s.endAll(0) }()
		synctest.Wait()
		if _, err := s.start(&wire.Spec{ID: "next", Argv: []string{"true"}, StateDir: t.TempDir() + "/missing/next"}); !errors.Is(err, errEnding) {
			t.Errorf("another start: got %v, want %v", err, errEnding)
		}
		select {
		case err := <-ended:
			t.Errorf("returned while a container is being started: %v", err)
		default:
		}
		close(c.launched)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestSocketsOfNextDaemon checks that the sockets of a daemon are kept for as long as those of the one before, which has ended shortly before.
func TestSocketsOfNextDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fd, err := syscall.Open(os.DevNull, os.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := &supervisor{sockets: []int{fd}}
		open := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.sockets) > 0
		}
		for range 2 { // the end of each daemon
			s.mu.Lock()
			s.expireSockets()
			s.mu.Unlock()
			time.Sleep(socketsTime * 2 / 3) // in virtual time; the second time the timer of the first daemon would have ended
			synctest.Wait()
			if !open() {
				t.Fatal("the sockets are closed too early")
			}
		}
		time.Sleep(socketsTime) // in virtual time, until the timer of the last daemon has ended
		synctest.Wait()
		if open() {
			t.Error("the sockets stay open")
		}
	})
}
