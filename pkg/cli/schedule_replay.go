package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	configv1 "k8s.io/kube-scheduler/config/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// replayFlags are the flags of schedule replay.
type replayFlags struct {
	configs   []string
	workloads []string
	seed      uint64
	seeds     int
	attempt   time.Duration
	output    string
}

func newScheduleReplay(env *Env) *cobra.Command {
	f := replayFlags{seed: 1, seeds: 1, attempt: whatif.DefaultAttemptTime}
	cmd := &cobra.Command{
		Use:   "replay TRACE...",
		Short: "Replay a trace of nodes and pods in virtual time",
		Long: `Replay a trace in virtual time, in the scheduler's engine in this process: no cluster is needed, and none is changed. TRACE is either

- a configuration file of Kubernetes' scheduler_perf, whose operations are the trace. --workload chooses among its workloads, CASE/WORKLOAD,
  by patterns; '*' means all. What cannot be replayed is named with its path.
- a node list and a pod list in the "openb" CSV format of Alibaba's cluster-trace-gpu-v2023. Pods arrive at their creation_time and leave at
  their deletion_time. Pods with the same value in a column gang are a gang, which needs gang_min of them, or all.

Pods wait in the scheduling queue, with its backoffs and queueing hints. Attempts follow one another, and each takes --attempt-time of
the virtual time. The pods of a gang are placed together or not at all. With several --config the trace is replayed under each of them.

The table has the means over virtual time, and with --seeds those over several runs with their 95 % confidence intervals. -o csv has a line
for each sample of each run, -o svg plots them.`,
		Example: `  minikctl schedule replay openb_node_list_gpu_node.csv openb_pod_list_default.csv
  minikctl schedule replay nodes.csv pods.csv --config spread.yaml --config pack.yaml -o svg > plot.svg
  minikctl schedule replay misc/performance-config.yaml --workload SchedulingBasic/500Nodes`,
		Args: arguments("a file with a trace", 1, -1),
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case f.seeds < 1:
				return cmdutil.UsageErrorf(cmd, "--seeds must be at least 1")
			case f.attempt <= 0:
				return cmdutil.UsageErrorf(cmd, "--attempt-time must be positive")
			}
			traces, err := f.read(env, files)
			if err != nil {
				return err
			}
			var all [][]*whatif.Result
			for _, t := range traces {
				runs, err := f.replay(cmd.Context(), env, t)
				if err != nil {
					return err
				}
				all = append(all, runs...)
			}
			return f.print(env, all)
		},
	}
	cmd.Flags().StringSliceVar(&f.configs, "config", nil, "KubeSchedulerConfiguration files (default: that of the trace, or the defaults)")
	cmd.Flags().StringSliceVar(&f.workloads, "workload", nil, "patterns of the workloads of a scheduler_perf file: CASE, or CASE/WORKLOAD")
	cmd.Flags().Uint64Var(&f.seed, "seed", f.seed, "draws among equally good nodes")
	cmd.Flags().IntVar(&f.seeds, "seeds", f.seeds, "number of runs, with the seeds from --seed on")
	cmd.Flags().DurationVar(&f.attempt, "attempt-time", f.attempt, "virtual time that a scheduling attempt takes")
	addOutput(cmd, &f.output, "a table", "csv", "svg", "json", "yaml")
	return cmd
}

// replayTrace is a trace with the configuration file that it names; "": none.
type replayTrace struct {
	whatif.Trace
	config string
}

// read reads the traces of files.
func (f *replayFlags) read(env *Env, names []string) ([]replayTrace, error) {
	var csvs, others []whatif.File
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if whatif.IsOpenB(data) || strings.EqualFold(filepath.Ext(name), ".csv") {
			csvs = append(csvs, whatif.File{Name: name, Data: data})
		} else {
			others = append(others, whatif.File{Name: name, Data: data})
		}
	}
	if len(csvs) > 0 {
		if len(others) > 0 {
			return nil, fmt.Errorf("%s: the first line is not that of an openb trace, as in %s", others[0].Name, csvs[0].Name)
		}
		if len(f.workloads) > 0 {
			return nil, errors.New("--workload chooses among the workloads of scheduler_perf files; an openb trace has none")
		}
		t, err := whatif.ReadOpenB("", csvs)
		return []replayTrace{{Trace: t}}, err
	}
	var workloads []whatif.PerfWorkload
	for _, file := range others {
		list, err := whatif.ReadPerf(file, os.ReadFile)
		if err != nil {
			return nil, err
		}
		workloads = append(workloads, list...)
	}
	chosen, err := f.choose(workloads)
	if err != nil {
		return nil, err
	}
	return playable(env, chosen)
}

// choose returns the workloads that --workload names. A single workload needs no name.
func (f *replayFlags) choose(all []whatif.PerfWorkload) ([]whatif.PerfWorkload, error) {
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	if len(f.workloads) == 0 {
		if len(all) == 1 {
			return all, nil
		}
		return nil, fmt.Errorf("choose workloads with --workload, '*' for all:\n  %s", strings.Join(names, "\n  "))
	}
	chosen := map[string]bool{}
	for _, pattern := range f.workloads {
		found := false
		for _, name := range names {
			test, _, _ := strings.Cut(name, "/")
			whole, err := path.Match(pattern, name)
			if err != nil {
				return nil, fmt.Errorf("--workload %s: %w", pattern, err)
			}
			if part, _ := path.Match(pattern, test); whole || part {
				chosen[name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("--workload %s: not one of\n  %s", pattern, strings.Join(names, "\n  "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(w whatif.PerfWorkload) bool { return !chosen[w.Name] }), nil
}

// playable returns the traces of the workloads that can be replayed, and warns of the others. It is an error if there are none.
func playable(env *Env, workloads []whatif.PerfWorkload) ([]replayTrace, error) {
	var out []replayTrace
	var not, ignored []string
	for _, w := range workloads {
		test, _, _ := strings.Cut(w.Name, "/")
		for _, why := range w.Unsupported {
			if line := test + ": " + why; !slices.Contains(not, line) {
				not = append(not, line)
			}
		}
		if len(w.Unsupported) > 0 {
			continue
		}
		for _, field := range w.Ignored {
			if !slices.Contains(ignored, field) {
				ignored = append(ignored, field)
			}
		}
		out = append(out, replayTrace{w.Trace(), w.ConfigFile})
	}
	if len(out) == 0 {
		return nil, errors.New(strings.Join(not, "\n"))
	}
	for _, line := range not {
		fmt.Fprintln(env.Err, "Warning: not replayed:", line)
	}
	if len(ignored) > 0 {
		fmt.Fprintln(env.Err, "Warning: without effect on a replay:", strings.Join(ignored, ", "))
	}
	return out, nil
}

// replay replays a trace under each configuration.
func (f *replayFlags) replay(ctx context.Context, env *Env, t replayTrace) ([][]*whatif.Result, error) {
	files := f.configs
	if len(files) == 0 {
		files = []string{t.config}
	}
	var out [][]*whatif.Result
	for _, file := range files {
		var config *configv1.KubeSchedulerConfiguration
		name := "default"
		if file != "" {
			var err error
			if config, err = scheduler.ReadConfig(file); err != nil {
				return nil, err
			}
			name = filepath.Base(file)
		}
		var runs []*whatif.Result
		for i := range f.seeds {
			r, err := whatif.Replay(ctx, scheduler.Simulation{Registry: env.Plugins, Config: config}, t.Trace,
				whatif.Options{Seed: f.seed + uint64(i), AttemptTime: f.attempt, Now: env.Now})
			if err != nil {
				return nil, configError(file, err)
			}
			r.Config = name
			if r.Stopped != "" {
				fmt.Fprintf(env.Err, "Warning: %s stopped: %s\n", r.Label(), r.Stopped)
			}
			runs = append(runs, r)
		}
		out = append(out, runs)
	}
	return out, nil
}

// print writes the runs, which are grouped by trace and configuration.
func (f *replayFlags) print(env *Env, all [][]*whatif.Result) error {
	switch f.output {
	case "csv":
		return writeSamples(env, all)
	case "svg":
		plotReplay(env.Out, all)
		return nil
	case "json", "yaml":
		return printAs(env, f.output, slices.Concat(all...))
	}
	for len(all) > 0 {
		workload := all[0][0].Workload
		n := slices.IndexFunc(all, func(runs []*whatif.Result) bool { return runs[0].Workload != workload })
		if n < 0 {
			n = len(all)
		}
		if workload != "" {
			fmt.Fprintln(env.Out, workload)
		}
		if err := printComparison(env, all[:n]); err != nil {
			return err
		}
		if all = all[n:]; len(all) > 0 {
			fmt.Fprintln(env.Out)
		}
	}
	return nil
}

// series are the figures that samples have, in the order of the columns of -o csv.
func series(all [][]*whatif.Result) []seriesColumn {
	out := []seriesColumn{
		{"running", "pods", func(s *whatif.Sample) float64 { return float64(s.Running) }},
		{"pending", "pods", func(s *whatif.Sample) float64 { return float64(s.Pending) }},
		{"preemptions", "pods", func(s *whatif.Sample) float64 { return float64(s.Preemptions) }},
	}
	if whatif.HaveGangs(all) {
		out = append(out,
			seriesColumn{"gangs-running", "gangs", func(s *whatif.Sample) float64 { return float64(s.GangsRunning) }},
			seriesColumn{"gangs-pending", "gangs", func(s *whatif.Sample) float64 { return float64(s.GangsPending) }},
		)
	}
	out = append(out,
		seriesColumn{"cpu", "%", func(s *whatif.Sample) float64 { return 100 * s.CPU }},
		seriesColumn{"memory", "%", func(s *whatif.Sample) float64 { return 100 * s.Memory }},
	)
	for _, name := range whatif.ExtendedOf(all) {
		out = append(out, seriesColumn{name, "%", func(s *whatif.Sample) float64 { return 100 * s.Extended[name] }})
	}
	return append(out,
		seriesColumn{"fragmentation", "%", func(s *whatif.Sample) float64 { return 100 * s.Fragmentation }},
		seriesColumn{"used-nodes", "nodes", func(s *whatif.Sample) float64 { return s.UsedNodes }},
		seriesColumn{"imbalance-mean", "%", func(s *whatif.Sample) float64 { return 100 * s.ImbalanceMean }},
		seriesColumn{"imbalance-stddev", "%", func(s *whatif.Sample) float64 { return 100 * s.ImbalanceStddev }},
	)
}

// seriesColumn is a figure over time.
type seriesColumn struct {
	name, unit string
	of         func(s *whatif.Sample) float64
}

// writeSamples writes a line for each sample of each run.
func writeSamples(env *Env, all [][]*whatif.Result) error {
	w := csv.NewWriter(env.Out)
	columns := series(all)
	header := []string{"workload", "config", "seed", "time"}
	for _, c := range columns {
		header = append(header, c.name)
	}
	if err := w.Write(header); err != nil {
		return err
	}
	for _, r := range slices.Concat(all...) {
		for i := range r.Samples {
			s := &r.Samples[i]
			line := []string{r.Workload, r.Config, strconv.Itoa(r.Seed), strconv.FormatFloat(s.Time, 'f', -1, 64)}
			for _, c := range columns {
				line = append(line, strconv.FormatFloat(c.of(s), 'f', 3, 64))
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}
