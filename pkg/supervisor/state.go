package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/remove"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().UTC().Format(time.RFC3339)+" "+format+"\n", args...)
}

// nextRevision returns a revision above last and above those of earlier supervisors.
func nextRevision(last uint64) uint64 { return max(last+1, uint64(time.Now().UnixNano())) }

// save replaces the container's status on disk. It needs no fsync: the status must survive the death of processes, and a
// restart of the machine ends the container, which the next supervisor recognizes by the ID of the boot.
func (c *container) save() error {
	b, err := json.Marshal(&c.status)
	if err != nil {
		return err
	}
	path := c.spec.StateDir + "/" + wire.StateFile
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// saveRanges records the prefixes of Services' addresses; nil: no change. The next supervisor refuses these addresses before a daemon has sent it
// the routes.
func (s *supervisor) saveRanges(ranges []string) {
	if ranges == nil {
		return
	}
	path := s.root + "/" + wire.RangesFile
	b, err := json.Marshal(ranges)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		logf("addresses of Services: %v", err)
	}
}

func (s *supervisor) loadRanges() {
	var ranges []string
	b, err := os.ReadFile(s.root + "/" + wire.RangesFile)
	if err == nil {
		err = json.Unmarshal(b, &ranges)
	}
	switch {
	case err == nil:
		s.routes.apply(&wire.Routes{Ranges: ranges})
	case !errors.Is(err, fs.ErrNotExist):
		logf("addresses of Services: %v", err)
	}
}

// load reads the containers that an earlier supervisor has left below root.
func load(root string) ([]*container, error) {
	entries, err := os.ReadDir(root + "/" + wire.Containers)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*container
	for _, e := range entries {
		dir := root + "/" + wire.Containers + "/" + e.Name()
		b, err := os.ReadFile(dir + "/" + wire.StateFile)
		var status wire.Status
		if err == nil {
			err = json.Unmarshal(b, &status)
		}
		if err != nil || status.Spec == nil || status.Spec.ID != e.Name() {
			// The container was being created or removed: no process runs in this directory.
			logf("drop %s: %v", dir, err)
			if err := remove.All(dir); err != nil {
				return nil, err
			}
			continue
		}
		status.Spec.StateDir = dir
		all = append(all, &container{
			spec: status.Spec, status: status, cgroup: cgroup(status.Cgroup), ended: make(chan struct{}),
		})
	}
	return all, nil
}
