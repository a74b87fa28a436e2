package cli

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

func newScheduleCompare(env *Env) *cobra.Command {
	f := scheduleFlags{source: "-f"}
	seeds := 10
	cmd := &cobra.Command{
		Use:   "compare CONFIG... -f FILE",
		Short: "Compare scheduler configurations on the same workload",
		Long: `Compare KubeSchedulerConfiguration files on the same workload, in the scheduler's engine in this process. Each configuration runs once for
each seed. The seed gives the order in which the pods arrive, one each 100 ms of virtual time, and draws among equally good nodes. Pods
that find no node wait in the scheduling queue, and pods that are evicted arrive again. The pods of a gang, a PodGroup that needs a number of
them, wait until they are there, and are placed together or not at all; those of a group of scheduling.x-k8s.io only if their profile has the plugin Coscheduling. The cluster is the running one, or that of
--nodes-from or of -f, if they have Nodes.

The table, and the plot of -o svg, has the means over all seeds with their 95 % confidence intervals, -o csv the figures of each run: pods that are placed, pending
and evicted; the virtual time from arrival to binding; the same of gangs, if there are any; the requested part of CPU and memory; the part of the free resources without room for
a pod; the nodes with pods; how far the nodes' loads are from their mean (mean and standard deviation), where a node's load is the
greater of the requested parts of its CPU and memory; and the pods per second of the engine.`,
		Example: `  minikctl schedule compare spread.yaml pack.yaml -f workload.yaml --seeds 10
  minikctl schedule compare spread.yaml pack.yaml -f workload.yaml -o csv > runs.csv
  minikctl schedule compare spread.yaml pack.yaml -f workload.yaml -o svg > plot.svg`,
		Args: arguments("a CONFIG", 1, -1),
		RunE: func(cmd *cobra.Command, configs []string) error {
			if seeds < 1 {
				return cmdutil.UsageErrorf(cmd, "--seeds must be at least 1")
			}
			f.config = configs[0] // so that the running configuration is not needed
			cluster, workloads, _, err := f.load(cmd.Context(), env)
			if err != nil {
				return err
			}
			for _, w := range cluster.Guessed(workloads) {
				fmt.Fprintln(env.Err, "Warning:", w)
			}
			var all [][]*whatif.Result
			for _, file := range configs {
				config, err := scheduler.ReadConfig(file)
				if err != nil {
					return err
				}
				got, err := whatif.Compare(cmd.Context(), filepath.Base(file), cluster.Simulation(env.Plugins, config), workloads, seeds, env.Now)
				if err != nil {
					return configError(file, err)
				}
				all = append(all, got)
			}
			switch f.output {
			case "":
				return printComparison(env, all)
			case "csv":
				return writeRuns(env, all)
			case "svg":
				plotComparison(env.Out, all)
				return nil
			}
			return printAs(env, f.output, all)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&seeds, "seeds", seeds, "number of runs of each configuration")
	addOutput(cmd, &f.output, "a table", "csv", "svg", "json", "yaml")
	return cmd
}

// printComparison writes a row for each metric and a column for each configuration.
func printComparison(env *Env, all [][]*whatif.Result) error {
	headers := []string{"METRIC", "UNIT"}
	for _, runs := range all {
		headers = append(headers, runs[0].Config)
	}
	t := newTable(env.Out, headers...)
	for _, m := range whatif.MetricsOf(all) {
		row := []string{m.Name, m.Unit}
		for _, runs := range all {
			s := whatif.Summarise(runs, m)
			cell := fmt.Sprintf("%.*f", m.Decimals(), s.Mean)
			if len(runs) > 1 {
				cell += fmt.Sprintf(" ± %.*f", m.Decimals(), s.Confidence)
			}
			row = append(row, cell)
		}
		if err := t.Append(row); err != nil {
			return err
		}
	}
	return t.Render()
}

// writeRuns writes a line for each run.
func writeRuns(env *Env, all [][]*whatif.Result) error {
	w := csv.NewWriter(env.Out)
	header := []string{"config", "seed"}
	metrics := whatif.MetricsOf(all)
	for _, m := range metrics {
		header = append(header, m.Name)
	}
	if err := w.Write(header); err != nil {
		return err
	}
	for _, runs := range all {
		for _, r := range runs {
			line := []string{r.Config, strconv.Itoa(r.Seed)}
			for _, m := range metrics {
				line = append(line, strconv.FormatFloat(m.Of(r), 'f', 3, 64))
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}
