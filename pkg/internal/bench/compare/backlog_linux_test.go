package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/app"
)

// asProgram is the variable with which this test's binary is minikctl.
const asProgram = "COMPARE_TEST_AS_MINIKCTL"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(app.Run(context.Background()))
	}
	os.Exit(m.Run())
}

// thisProgram returns the side of this test's binary.
func thisProgram(t *testing.T) *ours {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asProgram, "1")
	return &ours{"minikctl", program, t.TempDir(), nil}
}

func TestBacklog(t *testing.T) {
	s := thisProgram(t)
	var got table
	if err := backlog(t.Context(), s, sizesOf(0.01), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"50 pods on 10 nodes, no constraint", "50 pods on 50 nodes, no constraint", "100 pods on 50 nodes, no constraint",
		"20 pods on 10 nodes, spread over zones", "20 pods on 10 nodes, anti-affinity in groups of 2",
		"20 pods on 10 nodes, affinity to the zone of a group of 2",
	}
	figures := []string{
		"first to last binding", "start of the scheduler to last binding", "scheduler: CPU", "scheduler: peak memory",
		"API server: CPU", "API server: memory after it", "API server: peak memory",
	}
	if len(got.rows) != len(want)*len(figures) {
		t.Errorf("%d rows, want %d", len(got.rows), len(want)*len(figures))
	}
	for i, r := range got.rows {
		if name := want[i/len(figures)] + ": " + figures[i%len(figures)]; r.what != name {
			t.Errorf("row %d is %q, want %q", i, r.what, name)
		}
		// Few pods may take less than a tick of the API server's CPU time.
		if f := r.figures["minikctl"]; len(f) != 1 || f[0] <= 0 && !strings.HasSuffix(r.what, "API server: CPU") {
			t.Errorf("%s: figures %v, want one above zero", r.what, f)
		}
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("files after it: %v, %v", left, err)
	}
}

func TestWorkloads(t *testing.T) {
	s := thisProgram(t)
	var got table
	if err := workloads(t.Context(), s, sizesOf(0.02), &got); err != nil {
		t.Fatal(err)
	}
	later := 0
	for _, r := range got.rows {
		if f := r.figures["minikctl"]; len(f) != 1 || f[0] <= 0 && !strings.HasSuffix(r.what, "CPU") {
			t.Errorf("%s: figures %v, want one above zero", r.what, f)
		}
		if strings.HasSuffix(r.what, "a later pod, p99") {
			later++
		}
	}
	if later != 11 {
		t.Errorf("pods came later in %d workloads, want 11", later)
	}
}

func TestSections(t *testing.T) {
	all := upstream{etcd: "etcd", apiserver: "kube-apiserver", controllers: "kube-controller-manager", scheduler: "kube-scheduler"}
	without := all
	without.controllers = ""
	for _, section := range sections {
		if !all.can(section.name) {
			t.Errorf("%s is left out though all programs are there", section.name)
		}
		want := section.name == "start" || section.name == "api" || section.name == "backlog" || section.name == "workloads" || section.name == "large"
		if got := without.can(section.name); got != want {
			t.Errorf("%s without kube-controller-manager: %v, want %v", section.name, got, want)
		}
	}
}
