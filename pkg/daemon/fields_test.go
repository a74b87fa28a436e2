package daemon

import (
	"flag"
	"os"
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
