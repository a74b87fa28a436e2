package trim

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// program holds the mappings of the program's file, which stay as they are.
var program struct {
	once     sync.Once
	mappings []mapping
}

func findProgram() {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	program.mappings = clean(string(smaps), path)
}

// Now returns the pages. They are clean: the kernel maps a page again when the process touches it.
func Now() {
	program.once.Do(findProgram)
	for _, m := range program.mappings {
		// Without MADV_NOHUGEPAGE an access to a page would load its whole huge page again. An error leaves the pages as they are.
		for _, advice := range []uintptr{unix.MADV_NOHUGEPAGE, unix.MADV_DONTNEED} {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), advice)
		}
	}
}

// Resident returns the bytes of files that the process has in memory.
func Resident() uint64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(statm)) // of pages: all, resident, resident of files, …
	if len(f) < 3 {
		return 0
	}
	pages, _ := strconv.ParseUint(f[2], 10, 64)
	return pages * uint64(os.Getpagesize())
}

// Files moves the resident pages of mapped files below a directory out of memory: those of the store's tables and logs. Unlike
// MADV_DONTNEED, MADV_PAGEOUT keeps the content of a new mapping at the same address. A kernel
// before 5.4 has no such advice, and keeps the pages.
func Files(dir string) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for _, m := range shared(string(maps), dir) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), unix.MADV_PAGEOUT)
	}
}

// shared returns the shared mappings of files below a directory.
func shared(maps, dir string) []mapping {
	var out []mapping
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) < 6 || len(f[1]) != 4 || f[1][3] != 's' || !strings.HasPrefix(strings.Join(f[5:], " "), strings.TrimSuffix(dir, "/")+"/") {
			continue
		}
		if m, ok := parse(f[0]); ok {
			out = append(out, m)
		}
	}
	return out
}

// mapping is a range of addresses.
type mapping struct{ start, end uint64 }

// clean returns the mappings of the program's file with unchanged content: read-only, and without anonymous pages. A dynamic
// linker writes addresses into pages and protects the pages afterwards. Such pages would be loaded again without the addresses.
func clean(smaps, program string) []mapping {
	var out []mapping
	var at mapping
	own := false
	for line := range strings.Lines(smaps) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 2 && strings.HasSuffix(f[0], ":"): // Rss:  4 kB
			if own && f[0] == "Anonymous:" && f[1] == "0" {
				out = append(out, at)
			}
		case len(f) >= 5: // 00400000-00452000 r-xp 00000000 08:02 173521 /path
			at, own = parse(f[0])
			own = own && f[1][1] != 'w' && strings.Join(f[5:], " ") == program
		}
	}
	return out
}

func parse(addresses string) (mapping, bool) {
	from, to, _ := strings.Cut(addresses, "-")
	start, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return mapping{}, false
	}
	end, err := strconv.ParseUint(to, 16, 64)
	return mapping{start, end}, err == nil
}
