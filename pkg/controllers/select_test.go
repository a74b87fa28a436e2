package controllers

import (
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	for _, c := range []struct{ list, with, without, err string }{
		{"", "cronjob-controller job-controller", "", ""},
		{"*", "cronjob-controller job-controller", "", ""},
		{"* -cronjob-controller", "job-controller", "cronjob-controller", ""},
		{"* -cronjob", "job-controller", "cronjob-controller", ""},
		{"-cronjob *", "job-controller", "cronjob-controller", ""},
		{"job-controller", "job-controller", "cronjob-controller deployment-controller", ""},
		{"-job job *", "cronjob-controller", "job-controller", ""},
		{"-job", "", "cronjob-controller job-controller", ""},
		{"* -storage-version-gc", "job-controller", "storageversion-garbage-collector-controller", ""},
		{"storageversion-garbage-collector-controller", "", "job-controller storageversion-garbage-collector-controller", ""},
		{"* -attachdetach -persistentvolume-attach-detach-controller -svm", "job-controller", "", ""},
		{"* -cloud-node-lifecycle-controller -node-route-controller -device-taint-eviction-controller", "job-controller", "", ""},
		{"* tokencleaner", "", "", `minikctl does not have the controller "tokencleaner"`},
		{"* -crons", "", "", `"crons" is not in the list of known controllers`},
		{"* -", "", "", `"" is not in the list of known controllers`},
	} {
		t.Run(c.list, func(t *testing.T) {
			selected, err := Select(strings.Fields(c.list))
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]bool{}
			for _, s := range selected {
				have[s.Name] = true
			}
			for _, name := range strings.Fields(c.with) {
				if !have[name] {
					t.Errorf("%s is missing", name)
				}
			}
			for _, name := range strings.Fields(c.without) {
				if have[name] {
					t.Errorf("%s is enabled", name)
				}
			}
		})
	}
}

// TestNames checks that entries of one controller only share a name, and that an alias is no other controller's name, nor that of one which
// does not run.
func TestNames(t *testing.T) {
	owner := map[string]string{}
	for _, c := range All {
		if c.Name == "" {
			t.Errorf("the controller of %s has no name", c.Component)
		}
		for _, name := range []string{c.Name, c.Alias} {
			if name != "" && owner[name] != "" && owner[name] != c.Name {
				t.Errorf("%s names %s and %s", name, owner[name], c.Name)
			}
			owner[name] = c.Name
		}
	}
	for _, name := range slices.Concat(absent, gated) {
		if owner[name] != "" {
			t.Errorf("%s runs", name)
		}
	}
}
