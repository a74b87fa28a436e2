//go:build race

package process_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
)

// raceDir is the environment variable that is set in the processes that these tests start.
const raceDir = "MINIKCTL_PROCESSTEST_RACES"

// watchRaces sets the options of the race detector for the processes that the tests start, which are this program: supervisors,
// keepers, and first steps of containers. They write the races that they find to a directory, and check returns an error if
// there are some. They end at once: by default a program with the detector sleeps for a second at its end, and every test
// waits for the end of a supervisor and a keeper.
func watchRaces() (check func() error) {
	none := func() error { return nil }
	if os.Getenv(raceDir) != "" || runtimetest.StartedBySuite() {
		return none // the first process of the tests checks
	}
	dir, err := os.MkdirTemp("", "minikctl-test-")
	if err != nil {
		return func() error { return err }
	}
	options := os.Getenv("GORACE") + " atexit_sleep_ms=0 log_path=" + filepath.Join(dir, "race")
	// Supervisors of other users write there, too.
	if err := errors.Join(os.Chmod(dir, 0o777), os.Setenv("GORACE", options), os.Setenv(raceDir, dir)); err != nil {
		return func() error { return errors.Join(err, os.RemoveAll(dir)) }
	}
	return func() error {
		reports, err := filepath.Glob(filepath.Join(dir, "race.*"))
		for _, path := range reports {
			text, readErr := os.ReadFile(path)
			err = errors.Join(err, readErr, fmt.Errorf("a race in a process that a test has started:\n%s", text))
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
}
