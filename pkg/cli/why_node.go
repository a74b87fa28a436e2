package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// whyFlags choose a part of the decisions about a pod.
type whyFlags struct {
	selector string // of labels; "": one pod
	all      bool   // all attempts, not only the last
	attempt  int    // 0: the last
	node     string
	output   string
}

// isTable reports whether the output has a row for each node.
func (f *whyFlags) isTable() bool {
	return slices.Contains([]string{"wide", "heatmap", "svg"}, f.output)
}

// nodeReport is the verdicts of one attempt.
type nodeReport struct {
	Pod              string `json:"pod"`
	Attempt          int    `json:"attempt"`
	Outcome          string `json:"outcome"`
	ConfigGeneration int64  `json:"configGeneration,omitempty"`
	// EvaluatedAgain is true if the verdicts are not those of the attempt: the node was filtered and scored again, with the cluster and configuration of now.
	EvaluatedAgain bool               `json:"evaluatedAgain,omitempty"`
	Verdicts       []minikctl.Verdict `json:"verdicts"`
}

// choose leaves the decisions of the chosen attempts.
func (f *whyFlags) choose(list *minikctl.DecisionList) error {
	switch {
	case f.attempt > 0:
		pod := list.Items[0].Pod
		list.Items = slices.DeleteFunc(list.Items, func(d minikctl.Decision) bool { return d.Attempt != f.attempt })
		if len(list.Items) == 0 {
			return fmt.Errorf("attempt %d of pod %q is not recorded", f.attempt, pod)
		}
	case !f.all:
		list.Items = list.Items[len(list.Items)-1:]
	}
	return nil
}

// perNode shows the verdicts of nodes.
func (f *whyFlags) perNode(ctx context.Context, env *Env, list *minikctl.DecisionList) error {
	var reports []nodeReport
	for i := range list.Items {
		d := &list.Items[i]
		r := nodeReport{Pod: d.Pod, Attempt: d.Attempt, Outcome: d.Outcome, ConfigGeneration: d.ConfigGeneration}
		nodes := d.Listed()
		if f.node != "" {
			nodes = []string{f.node}
		}
		for _, node := range nodes {
			r.Verdicts = append(r.Verdicts, d.Verdict(node))
		}
		if f.node != "" && r.Verdicts[0].Outcome == minikctl.NotRecorded {
			again, err := evaluateAgain(ctx, env, d, f.node)
			if err != nil {
				return fmt.Errorf("node %s is not among the %d that attempt %d lists, and cannot be evaluated again: %w", f.node, len(d.Listed()), d.Attempt, err)
			}
			r.EvaluatedAgain, r.Verdicts[0] = true, again.Verdict(f.node)
		}
		reports = append(reports, r)
	}
	if f.output == "json" || f.output == "yaml" {
		return printAs(env, f.output, reports)
	}
	if f.output == "svg" {
		var maps []heatmap
		for i := range reports {
			maps = append(maps, heatmapOf(&list.Items[i], &reports[i]))
		}
		printSVG(env.Out, maps)
		return nil
	}
	for i := range reports {
		if f.selector != "" && i > 0 {
			fmt.Fprintln(env.Out)
		}
		if err := f.print(env, &list.Items[i], &reports[i]); err != nil {
			return err
		}
	}
	return nil
}

// evaluateAgain filters and scores all nodes for the pod of a decision, with the cluster and configuration of now.
func evaluateAgain(ctx context.Context, env *Env, d *minikctl.Decision, node string) (*minikctl.Decision, error) {
	set, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	pod, err := set.CoreV1().Pods(d.Namespace).Get(ctx, d.Pod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var cluster whatif.Cluster
	if err := fetchCluster(ctx, env, &cluster); err != nil {
		return nil, err
	}
	configs, err := configsOf(ctx, env, "")
	if err != nil {
		return nil, err
	}
	var last error
	for _, config := range configs {
		box, err := scheduler.NewSandbox(ctx, cluster.Simulation(env.Plugins, config), 1)
		if err != nil {
			return nil, err
		}
		got, err := explainIn(ctx, box, pod, node)
		if err == nil {
			return got, nil
		}
		last = err
	}
	return nil, last
}

func explainIn(ctx context.Context, box *scheduler.Sandbox, pod *corev1.Pod, node string) (*minikctl.Decision, error) {
	defer box.Close(ctx)
	return box.Explain(ctx, pod, node)
}

func heatmapOf(d *minikctl.Decision, r *nodeReport) heatmap {
	title := fmt.Sprintf("pod/%s: attempt %d of profile %s: %s", d.Pod, d.Attempt, d.Profile, d.Outcome)
	if len(r.Verdicts) == 0 {
		title += ", no node was evaluated: " + d.Message
	}
	return newHeatmap(title, r.Verdicts)
}

func (f *whyFlags) print(env *Env, d *minikctl.Decision, r *nodeReport) error {
	if len(r.Verdicts) == 0 {
		fmt.Fprintf(env.Out, "pod/%s: attempt %d of profile %s, configuration %d: %s\n", d.Pod, d.Attempt, d.Profile, d.ConfigGeneration, d.Outcome)
		fmt.Fprintf(env.Out, "no node was evaluated: %s\n", d.Message)
		printNoPlacement(env.Out, d.Group)
		return printTimes(env, d.PluginTimes)
	}
	if f.output == "heatmap" {
		h := heatmapOf(d, r)
		h.printText(env.Out, hasColour(env.Out))
		return nil
	}
	fmt.Fprintf(env.Out, "pod/%s: attempt %d of profile %s, configuration %d: %s\n", d.Pod, d.Attempt, d.Profile, d.ConfigGeneration, d.Outcome)
	if r.EvaluatedAgain {
		fmt.Fprintf(env.Out, "The attempt's record does not list the node. It is evaluated again, with the cluster and configuration as they are now:\n")
		if d.Group != nil && (len(d.Group.Placements) > 0 || d.Group.RejectedBy != "") {
			fmt.Fprintf(env.Out, "The pod may only use the nodes of a placement of its PodGroup, which is not considered here.\n")
		}
	}
	if f.node != "" {
		return printVerdict(env, &r.Verdicts[0])
	}
	if listed := len(r.Verdicts); listed < d.Nodes {
		fmt.Fprintf(env.Out, "%d of %d nodes are listed; --node shows any other\n", listed, d.Nodes)
	}
	if err := printMatrix(env, r.Verdicts); err != nil {
		return err
	}
	return printTimes(env, d.PluginTimes)
}

// printTimes writes a row for each plugin and extension point, in the order of the calls.
func printTimes(env *Env, times []minikctl.PluginTime) error {
	if len(times) == 0 {
		return nil
	}
	rows := make([][]string, len(times))
	for i, p := range times {
		rows[i] = []string{p.Point, p.Plugin, short(p.Took)}
	}
	fmt.Fprintln(env.Out, "\nPlugins that took a microsecond or more:")
	return printRows(env, []string{"POINT", "PLUGIN", "TOOK"}, rows)
}

// printVerdict writes a row for each plugin.
func printVerdict(env *Env, v *minikctl.Verdict) error {
	outcome := v.Outcome
	if v.Chosen {
		outcome += ", chosen"
	}
	if v.Reason != "" {
		outcome += ": " + v.Reason
	}
	fmt.Fprintf(env.Out, "node %s: %s\n", v.Node, outcome)
	var rows [][]string
	for _, p := range v.Plugins {
		row := []string{p.Point, p.Plugin, "", "", "", "", p.Outcome, p.Reason}
		if p.Raw != nil {
			row = []string{p.Point, p.Plugin, fmt.Sprint(*p.Raw), fmt.Sprint(*p.Normalised), fmt.Sprint(p.Weight), fmt.Sprint(*p.Weighted), p.Outcome, ""}
		}
		rows = append(rows, row)
	}
	if v.Total != nil {
		rows = append(rows, []string{"", "total", "", "", "", fmt.Sprint(*v.Total), "", ""})
	}
	if len(rows) == 0 {
		return nil
	}
	return printRows(env, []string{"POINT", "PLUGIN", "RAW", "NORMALISED", "WEIGHT", "WEIGHTED", "OUTCOME", "REASON"}, rows)
}

// printMatrix writes a row for each node and a column for each Score plugin.
func printMatrix(env *Env, verdicts []minikctl.Verdict) error {
	var scorers []string
	for _, v := range verdicts {
		for _, p := range v.Plugins {
			if p.Raw != nil && !slices.Contains(scorers, p.Plugin) {
				scorers = append(scorers, p.Plugin)
			}
		}
	}
	headers := append([]string{"NODE", "OUTCOME", "TOTAL"}, scorers...)
	headers = append(headers, "BY", "REASON")
	var rows [][]string
	for _, v := range verdicts {
		rows = append(rows, matrixRow(&v, scorers))
	}
	fmt.Fprintln(env.Out, "Scores are raw>normalised×weight.")
	return printRows(env, headers, rows)
}

func matrixRow(v *minikctl.Verdict, scorers []string) []string {
	outcome, total, by := v.Outcome, "", ""
	if v.Chosen {
		outcome = "Chosen"
	}
	if v.Total != nil {
		total = fmt.Sprint(*v.Total)
	}
	cells := make([]string, len(scorers))
	var passed []string
	for _, p := range v.Plugins {
		switch {
		case p.Raw != nil:
			cells[slices.Index(scorers, p.Plugin)] = fmt.Sprintf("%d>%d×%d", *p.Raw, *p.Normalised, p.Weight)
		case p.Outcome == minikctl.Rejected:
			by = p.Plugin
		case p.Outcome == minikctl.Passed:
			passed = append(passed, p.Plugin)
		}
	}
	reason := v.Reason
	if by != "" && len(passed) > 0 {
		reason += " (passed " + strings.Join(passed, ", ") + " before)"
	}
	return append(append([]string{v.Node, outcome, total}, cells...), by, reason)
}
