package daemon

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
)

var update = flag.Bool("update", false, "write the pages that are made from code")

//go:generate go test -run TestFieldsPage -update .

func TestFieldsPage(t *testing.T) {
	const file = "../../docs/pod-fields.md"
	var tiers []kubelet.Tier
	for _, name := range drivers.Names() {
		driver := drivers.Parts[name]
		if driver.Tier.Name != name {
			t.Errorf("the tier of the driver %s is named %s", name, driver.Tier.Name)
		}
		tiers = append(tiers, driver.Tier)
	}
	page := runtimetest.FieldsPage(tiers...)
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page {
		t.Errorf("%s is out of date with the runtimes' tables: run go generate ./pkg/daemon", file)
	}
}

// TestFieldsHaveTests: testdata/fields.txt has the tests of each field that nodes with real containers honour. The tests exist, and the directory of
// one of them has a test that uses the field.
func TestFieldsHaveTests(t *testing.T) {
	table, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{}
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			tests[words[0]] = words[1:]
		}
	}
	sources := map[string]string{} // of the tests in a directory
	for _, name := range drivers.Names() {
		tier := drivers.Parts[name].Tier
		if tier.Simulated {
			continue
		}
		for _, f := range runtimetest.SupportedFields(tier) {
			row := f.Type + "." + f.Name
			used := false
			for _, test := range tests[row] {
				directory, function, _ := strings.Cut(test, ".")
				if sources[directory] == "" {
					sources[directory] = testSources(t, directory)
				}
				if !strings.Contains(sources[directory], "\nfunc "+function+"(") {
					t.Errorf("%s: there is no test %s", row, test)
				}
				used = used || regexp.MustCompile(`\b`+f.GoName+`\b|\b`+f.Name+`\b`).MatchString(sources[directory])
			}
			if !used {
				t.Errorf("the runtime %s honours %s, and testdata/fields.txt has no test that uses it", name, row)
			}
			delete(tests, row)
		}
	}
	for row := range tests {
		t.Errorf("no runtime honours %s of testdata/fields.txt", row)
	}
}

// testSources returns the tests of a package.
func testSources(t *testing.T, directory string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
