package process

import (
	"os"
	"slices"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// The Host keeps the pipes of running containers open for the case that the supervisor dies: the kernel drops their content
// with the last open end. The Host does not use them.

// holdPipes opens the pipes of a container, except those that fail to open.
func holdPipes(s *wire.Spec) []*os.File {
	files := []*os.File{}
	for _, name := range wire.Pipes {
		fd, err := syscall.Open(s.StateDir+"/"+name, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		// Blocking files are not polled, so that output of the container does not wake the daemon.
		if err := syscall.SetNonblock(fd, false); err != nil {
			syscall.Close(fd)
			continue
		}
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	if !s.Stdin || s.TTY {
		return files
	}
	// The input would end with its last writer.
	if fd, err := syscall.Open(s.StateDir+"/"+wire.InputPipe, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
		files = append(files, os.NewFile(uintptr(fd), wire.InputPipe))
	}
	return files
}

// releaseInput closes the input pipe that is held of a container. h.mu must be held.
func (h *Host) releaseInput(id string) {
	for i, f := range h.pipes[id] {
		if f.Name() == wire.InputPipe {
			f.Close()
			h.pipes[id] = slices.Delete(h.pipes[id], i, i+1)
			return
		}
	}
}

// release closes the descriptors that are held of a container. h.mu must be held.
func (h *Host) release(id string) {
	wire.CloseFiles(h.pipes[id])
	delete(h.pipes, id)
}
