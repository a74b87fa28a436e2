package supervisor

import (
	"os"
	"slices"
	"testing"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

func TestEndedSessionsAreForgotten(t *testing.T) {
	s := &supervisor{}
	c := &container{spec: &wire.Spec{ID: "c", Folder: t.TempDir()}}
	const none = 1 << 30 // above every process number
	s.joinSession(c, os.Getpid())
	for i := range 10 * manySessions {
		s.joinSession(c, none+i)
	}
	if n := len(c.status.Sessions); n > manySessions+1 {
		t.Errorf("%d sessions are remembered", n)
	}
	if !slices.Contains(c.status.Sessions, os.Getpid()) {
		t.Error("one that lives is forgotten")
	}
}

func TestCurrent(t *testing.T) {
	all := []process{{pid: 5, session: 1}, {pid: 6, session: 6, zombie: true}, {pid: 7, session: 7}}
	if got := current([]int{1, 5, 6, 7, 8}, all); !slices.Equal(got, []int{1, 5, 7}) {
		t.Errorf("got %v", got)
	}
}
