package trim

import (
	"reflect"
	"testing"
)

func TestClean(t *testing.T) {
	const smaps = `00400000-01c00000 r-xp 00000000 08:02 1 /tmp/a program
Size:              24576 kB
Rss:               10000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01c00000-02e00000 r--p 01800000 08:02 1 /tmp/a program
Rss:                 100 kB
Anonymous:             0 kB
02e00000-02e10000 r--p 02a00000 08:02 1 /tmp/a program
Rss:                  64 kB
Anonymous:            64 kB
02e10000-02f00000 rw-p 02a10000 08:02 1 /tmp/a program
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 08:02 2 /lib/libc.so.6
Anonymous:             0 kB
7f0000100000-7f0000200000 r-xp 00000000 08:02 1 /tmp/a program (deleted)
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x1c00000}, {0x1c00000, 0x2e00000}}
	if got := clean(smaps, "/tmp/a program"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := clean(smaps, "/tmp/a program (deleted)"); len(got) != 1 {
		t.Errorf("of the deleted program: %x", got)
	}
}

func TestShared(t *testing.T) {
	const smaps = `00400000-01c00000 r-xp 00000000 08:02 1 /home/a b/program
Rss:               10000 kB
7f0000000000-7f0000100000 r--s 00000000 08:02 2 /home/a b/store/000001.sst
Rss:               10000 kB
7f0000100000-7f0000200000 rw-s 00000000 08:02 3 /home/a b/store/00001.mem
7f0000200000-7f0000300000 rw-p 00000000 08:02 3 /home/a b/store/private
7f0000300000-7f0000400000 r--s 00000000 08:02 3 /home/a b/store2/000001.sst
7f0000400000-7f0000500000 rw-s 00000000 00:00 0
`
	want := []mapping{{0x7f0000000000, 0x7f0000100000}, {0x7f0000100000, 0x7f0000200000}}
	if got := shared(smaps, "/home/a b/store"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
