package process

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// pod is the part of a pod that the Host keeps on disk. The supervisor keeps the containers.
type pod struct {
	kubelet.PodSpec
	Node    string
	IP      string
	Started time.Time
}

const (
	podDir    = "pods"
	podSuffix = ".json"
)

// load creates the Host's directories and reads the pods on disk.
func (h *Host) load() error {
	// A container of another user must reach its own directory, but may not list this one.
	for _, dir := range []struct {
		name string
		mode fs.FileMode
	}{{".", 0o711}, {"run", 0o700}, {podDir, 0o700}, {wire.Containers, 0o711}} {
		if err := os.MkdirAll(h.path(dir.name), dir.mode); err != nil {
			return err
		}
		if err := os.Chmod(h.path(dir.name), dir.mode); err != nil {
			return err
		}
	}
	h.pods = map[types.UID]*pod{}
	entries, err := os.ReadDir(h.path(podDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), podSuffix) {
			continue // an incomplete file
		}
		b, err := os.ReadFile(filepath.Join(h.path(podDir), e.Name()))
		if err != nil {
			return err
		}
		p := new(pod)
		if err := json.Unmarshal(b, p); err != nil || string(p.UID)+podSuffix != e.Name() {
			// The file is not synced, and a loss of power, which ends the containers too, can leave it empty. The kubelet starts the pod again.
			slog.Warn("drop a damaged record of a pod", "file", e.Name(), "err", err)
			if err := os.Remove(filepath.Join(h.path(podDir), e.Name())); err != nil {
				return err
			}
			continue
		}
		if a, err := netip.ParseAddr(p.IP); err == nil && h.pool != nil {
			h.pool.Reserve(a)
		}
		h.pods[p.UID] = p
	}
	return nil
}

func (h *Host) podFile(uid types.UID) string {
	return filepath.Join(h.path(podDir), string(uid)+podSuffix)
}

func (h *Host) savePod(p *pod) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	path := h.podFile(p.UID)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// addPod returns the pod, which it creates if it does not exist.
func (h *Host) addPod(node string, spec kubelet.PodSpec) (*pod, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pods[spec.UID]; p != nil {
		return p, nil
	}
	spec.Annotations = nil // only simulated nodes use them
	p := &pod{PodSpec: spec, Node: node, Started: h.clock.Now()}
	if !spec.HostNetwork {
		p.IP = "127.0.0.1"
		if h.pool != nil && h.refused == "" {
			a, err := h.pool.Allocate()
			if err != nil {
				return nil, err
			}
			p.IP = a.String()
		}
	}
	if err := h.savePod(p); err != nil {
		h.releaseIP(p)
		return nil, err
	}
	h.pods[spec.UID] = p
	return p, nil
}

func (h *Host) removePod(p *pod) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := os.Remove(h.podFile(p.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h.releaseIP(p)
	delete(h.pods, p.UID)
	return nil
}

func (h *Host) releaseIP(p *pod) {
	if a, err := netip.ParseAddr(p.IP); err == nil && h.pool != nil {
		h.pool.Release(a)
	}
}

func (h *Host) pod(uid types.UID) *pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pods[uid]
}

// containers returns the statuses of a pod's containers.
func (h *Host) containers(uid types.UID) []*wire.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*wire.Status
	for _, s := range h.status {
		if s.Spec.Pod == string(uid) {
			all = append(all, s)
		}
	}
	return all
}
