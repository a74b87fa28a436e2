package trim

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Now gives the pages back. They are clean: what is needed again is mapped again.
func Now() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range clean(string(smaps), program) {
		// Pages of a big size would come back whole where a part is needed. A kernel that refuses leaves all as it is.
		for _, advice := range []uintptr{unix.MADV_NOHUGEPAGE, unix.MADV_DONTNEED} {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), advice)
		}
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uint64 }

// clean returns the mappings of the program's file that are exactly what the file holds: read-only, and without a page
// that was changed in memory. A dynamic linker writes addresses into pages and protects them afterwards; thrown away, they
// would come back without the addresses.
func clean(smaps, program string) []mapping {
	var out []mapping
	var at mapping
	ours := false
	for line := range strings.Lines(smaps) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 2 && strings.HasSuffix(f[0], ":"): // Rss:  4 kB
			if ours && f[0] == "Anonymous:" && f[1] == "0" {
				out = append(out, at)
			}
		case len(f) >= 5: // 00400000-00452000 r-xp 00000000 08:02 173521 /path
			at, ours = parse(f[0])
			ours = ours && f[1][1] != 'w' && strings.Join(f[5:], " ") == program
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
