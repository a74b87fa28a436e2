package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIdleMemory(t *testing.T) {
	const mib = 1 << 20
	m := idleMemory{before: 10 * mib, released: 10 * mib}
	for _, c := range []struct {
		name      string
		allocated uint64 // meanwhile
		want      bool
	}{
		{"idle from the start", mib, false},
		{"busy", 900 * mib, false},
		{"idle after it", mib, true},
		{"idle on", mib, false},
		{"a little work", 60 * mib, false},
		{"quiet after it", mib, true},
		{"quiet on", mib, false},
		{"a little work", 60 * mib, false},
		{"more of it", 60 * mib, false},
		{"which is a burst in sum", 20 * mib, true},
		{"requests now and then", 10 * mib, false},
		{"more of them", 10 * mib, false},
		{"and none", mib, true},
	} {
		_, got := m.check(m.before + c.allocated)
		if got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
		if got {
			m.released = m.before
		}
	}
	if allocated() == 0 {
		t.Error("the runtime does not report allocations")
	}
}

func TestCgroupLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"none":                 {nil, 0},
		"version 2, unlimited": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 0},
		"version 2, above": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "300000000\n", "sys/fs/cgroup/a/memory.max": "200000000\n",
		}, 200000000},
		"version 2, of a container": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "200000000\n"}, 200000000},
		"version 1": {map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "400000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1\n",
		}, 400000000},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupLimit(root); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for setting, want := range map[string]uint64{"": 0, "2Gi": 2 << 30, "500M": 500e6} {
		if got, err := parseMemory(setting); got != want || err != nil {
			t.Errorf("%q: got %d, %v", setting, got, err)
		}
	}
	for setting, want := range map[string]string{"lots": "is not a quantity", "1Mi": "is less than 128 Mi", "-5Gi": "is less than"} {
		if _, err := parseMemory(setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", setting, err)
		}
	}
}
