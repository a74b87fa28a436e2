package daemon

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseStartup gives back the memory that only starting up has touched: the heap's free pages, and the pages of the
// program's own file (code and constants of init functions), which the kernel reads again should they be needed.
func releaseStartup() {
	debug.FreeOSMemory()
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		dropPages(lines.Text(), exe)
	}
}

// dropPages drops the pages of one mapping, if it is a read-only one of the program's file.
func dropPages(line, exe string) {
	f := strings.Fields(line)
	if len(f) < 6 || strings.Contains(f[1], "w") || strings.Join(f[5:], " ") != exe {
		return
	}
	from, to, ok := strings.Cut(f[0], "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if !ok || err1 != nil || err2 != nil {
		return
	}
	// The pages come back from the file when they are used next, so nothing can be lost by an error here.
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
}
