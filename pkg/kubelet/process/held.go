package process

import (
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// The host keeps some things of running containers open for the case that the supervisor dies: the descriptors through
// which their bind and connect calls are answered, and their output pipes, whose content the kernel would drop with the
// last end. It uses neither.

// holdPipes opens the pipes of a container. What can't be opened is not held.
func holdPipes(s *wire.Spec) []*os.File {
	files := []*os.File{}
	for _, name := range wire.Pipes {
		fd, err := syscall.Open(s.Folder+"/"+name, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		// A blocking file is not polled: what the container writes must not wake the daemon.
		if err := syscall.SetNonblock(fd, false); err != nil {
			syscall.Close(fd)
			continue
		}
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	if !s.Stdin || s.TTY {
		return files
	}
	// Likewise its input, which would end with its last writer.
	if fd, err := syscall.Open(s.Folder+"/"+wire.InputPipe, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
		files = append(files, os.NewFile(uintptr(fd), wire.InputPipe))
	}
	return files
}

// letInputGo closes what is held of a container's input, when the input has ended. h.mu must be held.
func (h *Host) letInputGo(id string) {
	for i, f := range h.pipes[id] {
		if f.Name() == wire.InputPipe {
			f.Close()
			h.pipes[id] = slices.Delete(h.pipes[id], i, i+1)
			return
		}
	}
}

// hold keeps the notify descriptor of a running container. h.mu must be held.
func (h *Host) hold(id string, files []*os.File) {
	s := h.status[id]
	if len(files) != 1 || s == nil || !s.Running {
		wire.CloseFiles(files)
		return
	}
	if old := h.notify[id]; old != nil {
		old.Close()
	}
	h.notify[id] = files[0]
}

// held lists the containers of which something is held. h.mu must be held.
func (h *Host) held() []string {
	all := maps.Clone(h.notify)
	for id := range h.pipes {
		all[id] = nil
	}
	return slices.Collect(maps.Keys(all))
}

// letGo closes what is held of a container. h.mu must be held.
func (h *Host) letGo(id string) {
	if f := h.notify[id]; f != nil {
		f.Close()
		delete(h.notify, id)
	}
	wire.CloseFiles(h.pipes[id])
	delete(h.pipes, id)
}
