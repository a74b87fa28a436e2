package clustertest

import (
	"os"
	"os/exec"
	"syscall"
)

// grantsMounts reports whether a process of this user gets a mount namespace in which it may mount.
func grantsMounts() bool {
	cmd := exec.Command("mount", "--bind", "/", "/")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return cmd.Run() == nil
}
