// Command compare measures implementations of the Kubernetes API in alternation: this tree's minikctl, that of another
// commit, and Kubernetes' own programs. It prints Markdown tables of medians and their ratios for docs/benchmarks.md.
//
//	go run ./pkg/internal/bench/compare [-rounds 5] [-only start,api,deployment,scheduler,backlog,workloads,large,scale,rolling,jobs,endpoints,idle] [-workloads NAMES] [-scale 1] [-profiles DIR]
//
// The first side is always this tree, which the command builds. Environment variables name the programs of the other
// sides; a side without its programs is left out:
//
//	BASE                     minikctl of another commit
//	BASE_WITHOUT             sections that it can't do, separated by commas, e.g. jobs,endpoints without their controllers
//	MINIKCTL                 this tree's minikctl, if it is built already
//	ETCD, KUBE_APISERVER     etcd and kube-apiserver: what start and api need of Kubernetes
//	KUBE_SCHEDULER           with the two above: backlog, workloads, large
//	KUBE_CONTROLLER_MANAGER  with the three above: all other sections
//	KUBECTL                  a program whose start shows the machine's own speed
//
// Sides alternate within each round, and the rounds begin with different sides, so that a slowdown of the machine
// affects all of them. Every cluster is new, durable, and on loopback only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// sections are the measurements in the order of the report.
var sections = []section{
	{"start", "From the command to an answer", start},
	{"api", "The API", api},
	{"deployment", "A Deployment on simulated nodes", deployment},
	{"scheduler", "The scheduler", scheduler},
	{"backlog", "The scheduler in a process of its own, started when the pods are there", backlog},
	{"workloads", "Workloads of scheduler_perf, for a scheduler in a process of its own", workloads},
	{"large", "A large backlog", large},
	{"scale", "Many replicas on many simulated nodes", manyReplicas},
	{"rolling", "Deployments that roll at once", rolling},
	{"jobs", "Jobs", jobs},
	{"endpoints", "A Service with many endpoints", endpoints},
	{"idle", "An idle cluster with objects and nodes", idleLoad},
}

// section is a table of the report. Its measure function adds the figures of one round on one side to the table.
type section struct {
	name, title string
	measure     func(ctx context.Context, s side, size sizes, t *table) error
}

// sizes are the amounts of work of each measurement.
type sizes struct {
	span           time.Duration // of a cell of the API's throughput
	list           int           // pods that are listed
	nodes          int           // simulated nodes
	replicas, pods int           // of the Deployment; for the scheduler
	later          int           // pods that come when a backlog is bound
	settle         time.Duration // between the creation of a backlog's pods and the start of its scheduler

	manyReplicas, manyNodes int           // of scale
	deployments             int           // that roll
	jobs, endpoints         int           // Jobs; endpoints of one Service
	objects                 int           // ConfigMaps and pods of an idle cluster
	idle                    time.Duration // over which its CPU time is measured

	workloads []string // the names of those to measure; empty: all
}

func sizesOf(scale float64) sizes {
	n := func(full int) int { return max(1, int(float64(full)*scale)) }
	return sizes{
		span: time.Duration(float64(3*time.Second) * scale), list: n(5000), nodes: n(100), replicas: n(1000), pods: n(2000),
		later:        n(200),
		settle:       time.Duration(float64(3*time.Second) * scale),
		manyReplicas: n(5000), manyNodes: n(1000), deployments: n(200), jobs: n(1000), endpoints: n(5000),
		objects: n(1000), idle: time.Duration(float64(time.Minute) * scale),
	}
}

func run(ctx context.Context, out, progress io.Writer) error {
	rounds := flag.Int("rounds", 5, "rounds of every measurement; the tables hold the median")
	only := flag.String("only", "", "sections to measure, separated by commas (default: all)")
	scale := flag.Float64("scale", 1, "size of the measurements; below 1 for a trial")
	names := flag.String("workloads", "", "names of the workloads to measure, separated by commas (default: all)")
	profiles := flag.String("profiles", "", "an existing directory for profiles of the loads (CPU, heap, allocations)")
	flag.Parse()
	for _, name := range strings.Split(*only, ",") {
		if name != "" && !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			return fmt.Errorf("there is no section %q", name)
		}
	}

	size := sizesOf(*scale)
	if *names != "" {
		size.workloads = strings.Split(*names, ",")
	}

	dir, err := os.MkdirTemp("", "minikctl-compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := allSides(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Measured on %s, %d rounds.\n", time.Now().UTC().Format(time.DateOnly), *rounds)
	if err := machine(ctx, out); err != nil {
		return err
	}
	for _, sec := range sections {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), sec.name) {
			continue
		}
		t := &table{profiles: *profiles}
		able := slices.DeleteFunc(slices.Clone(sides), func(s side) bool { return !s.can(sec.name) })
		for round := range *rounds {
			for i := range able {
				s := able[(round+i)%len(able)]
				fmt.Fprintf(progress, "%s: round %d of %d: %s\n", sec.name, round+1, *rounds, s.name())
				if err := sec.measure(ctx, s, size, t); err != nil {
					return fmt.Errorf("%s of %s: %w", sec.name, s.name(), err)
				}
			}
		}
		fmt.Fprintf(out, "\n### %s\n\n", sec.title)
		t.print(out, able)
	}
	return nil
}

// allSides returns the side of this tree, and those with programs in environment variables.
func allSides(ctx context.Context, dir string) ([]side, error) {
	program := os.Getenv("MINIKCTL")
	if program == "" {
		program = filepath.Join(dir, "minikctl")
		if err := build(ctx, program); err != nil {
			return nil, err
		}
	}
	sides := []side{&ours{"minikctl", program, dir, nil}}
	if base := os.Getenv("BASE"); base != "" {
		sides = append(sides, &ours{"base", base, dir, strings.Split(os.Getenv("BASE_WITHOUT"), ",")})
	}
	up := upstream{
		dir: dir, etcd: os.Getenv("ETCD"), apiserver: os.Getenv("KUBE_APISERVER"),
		controllers: os.Getenv("KUBE_CONTROLLER_MANAGER"), scheduler: os.Getenv("KUBE_SCHEDULER"),
	}
	switch {
	case up.etcd != "" && up.apiserver != "":
		sides = append(sides, &up)
	case up.etcd != "" || up.apiserver != "":
		return nil, errors.New("ETCD and KUBE_APISERVER go together")
	}
	return sides, nil
}

func build(ctx context.Context, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", program, "github.com/minikctl/minikctl/cmd/minikctl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build minikctl: %w\n%s", err, out)
	}
	return nil
}

// machine prints the properties of this machine: its cores, and the start time of kubectl, a program with the same
// language and libraries.
func machine(ctx context.Context, out io.Writer) error {
	kubectl := os.Getenv("KUBECTL")
	if kubectl == "" {
		var err error
		if kubectl, err = exec.LookPath("kubectl"); err != nil {
			fmt.Fprintln(out, "No kubectl: the machine's own speed is not known.")
			return nil
		}
	}
	var took []float64
	for range 11 {
		began := time.Now()
		if err := exec.CommandContext(ctx, kubectl, "version", "--client").Run(); err != nil {
			return fmt.Errorf("%s: %w", kubectl, err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	fmt.Fprintf(out, "The machine's own speed: `kubectl version --client` takes %s.\n", seconds.format(median(took)))
	return nil
}
