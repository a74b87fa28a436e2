package kubelet

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strings"
)

// machine describes the machine of a node.
type machine struct {
	cpus                        int64
	memory, storage             int64 // bytes
	id, systemID, bootID        string
	kernel, image, system, arch string
}

// readMachine describes this machine. Properties that cannot be read stay empty.
func readMachine(dir string) machine {
	m := machine{
		cpus: int64(runtime.NumCPU()), system: runtime.GOOS, arch: runtime.GOARCH,
		id:       firstLine("/etc/machine-id", "/var/lib/dbus/machine-id"),
		systemID: firstLine("/sys/class/dmi/id/product_uuid"),
		bootID:   firstLine("/proc/sys/kernel/random/boot_id"),
		image:    osName(),
	}
	if m.systemID == "" {
		m.systemID = m.id
	}
	m.memory, m.storage, m.kernel = memorySize(), diskSize(dir), kernelVersion()
	return m
}

func firstLine(files ...string) string {
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			line, _, _ := bytes.Cut(b, []byte("\n"))
			return string(bytes.TrimSpace(line))
		}
	}
	return ""
}

// osName returns the name of the operating system, e.g. "Debian GNU/Linux 12 (bookworm)".
func osName() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return runtime.GOOS
}

// existing returns dir or its nearest parent that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || len(dir) <= 1 {
			return dir
		}
		dir = parent(dir)
	}
}

func parent(dir string) string {
	if i := strings.LastIndexByte(strings.TrimRight(dir, "/"), '/'); i > 0 {
		return dir[:i]
	}
	return "/"
}
