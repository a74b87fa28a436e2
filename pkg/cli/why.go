package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func newWhy(env *Env) *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why (pod/NAME | [pods] -l SELECTOR)",
		Short: "Show why a pod is on its node, or why it is on none",
		Long: `Show how the scheduler decided about a pod: which nodes were evaluated, which plugin rejected which nodes and why, and the
scores of the others. With --node or -o wide: what each plugin returned for a node, and its raw, normalised and weighted score.

A decision lists the best 32 nodes, or 3 while many pods wait, and the first 32 that were rejected for a reason. A node that it does not list is filtered and scored again, in
this process, with the cluster and configuration as they are now; the output says so. The same records: minikctl get decisions.minikctl.dev`,
		Example: `  minikctl why pod/web-5c9f7d-x2x7k
  minikctl why pod web-5c9f7d-x2x7k --all
  minikctl why web-5c9f7d-x2x7k -o wide            # what each plugin returned for each node
  minikctl why web-5c9f7d-x2x7k -o heatmap         # the same as a picture; -o svg for a browser
  minikctl why web-5c9f7d-x2x7k --node node-3
  minikctl why -l app=web                          # all pods with this label`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.selector == "":
				return oneObject(cmd, args)
			case len(args) == 0 || len(args) == 1 && isPods(args[0]):
				return nil
			}
			return cmdutil.UsageErrorf(cmd, "selectors and a name exclude each other")
		},
		ValidArgsFunction: completePods(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			find := f.ofSelected
			if f.selector == "" {
				name, err := podName(args)
				if err != nil {
					return err
				}
				find = func(ctx context.Context, env *Env, namespace string) (*minikctl.DecisionList, error) {
					return f.ofPod(ctx, env, namespace, name)
				}
			}
			namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
			if err != nil {
				return err
			}
			list, err := find(cmd.Context(), env, namespace)
			if err != nil {
				return err
			}
			return f.show(cmd.Context(), env, list)
		},
	}
	cmdutil.AddLabelSelectorFlagVar(cmd, &f.selector)
	cmd.Flags().BoolVar(&f.all, "all", false, "show all attempts, not only the last")
	cmd.Flags().IntVar(&f.attempt, "attempt", 0, "show this attempt (default: the last)")
	cmd.Flags().StringVar(&f.node, "node", "", "show what each plugin returned for this node")
	complete(cmd, "node", completeNames(env, "nodes"))
	addOutput(cmd, &f.output, "text", "wide", "heatmap", "svg", "json", "yaml")
	return cmd
}

// show prints decisions.
func (f *whyFlags) show(ctx context.Context, env *Env, list *minikctl.DecisionList) error {
	if f.node != "" || f.isTable() {
		return f.perNode(ctx, env, list)
	}
	if f.output != "" {
		return printAs(env, f.output, list)
	}
	for i := range list.Items {
		if f.selector != "" && i > 0 {
			fmt.Fprintln(env.Out)
		}
		if err := printDecision(env.Out, &list.Items[i], widthOf(env.Out)); err != nil {
			return err
		}
	}
	return nil
}

// completePods completes the names of pods, with or without the type before them.
func completePods(env *Env) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		prefix := ""
		if kind, rest, slash := strings.Cut(typed, "/"); slash {
			prefix, typed = kind+"/", rest
		}
		if len(args) > 1 || len(args) == 1 && prefix != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := completion.CompGetResource(env.Factory, "pods", typed)
		for i := range names {
			names[i] = prefix + names[i]
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// decisionsOf returns the decisions about a pod, oldest first. It waits up to two seconds for the first one: the scheduler reports a decision
// shortly after it has made it.
func decisionsOf(ctx context.Context, env *Env, namespace, name string) (*minikctl.DecisionList, error) {
	const selector, seconds = minikctl.PodLabel + "=", "2"
	list := &minikctl.DecisionList{}
	err := getVirtual(ctx, env, namespace, "decisions", selector+name, list)
	if err != nil || len(list.Items) > 0 {
		return list, err
	}
	c, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	if _, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, err
	}
	events, err := c.CoreV1().RESTClient().Get().AbsPath("apis", minikctl.GroupVersion.Group, minikctl.GroupVersion.Version, "namespaces", namespace, "decisions").
		Param("labelSelector", selector+name).Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Param("timeoutSeconds", seconds).
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	if _, err := events.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) { // the first event, or the end of the watch
		return nil, err
	}
	if err := getVirtual(ctx, env, namespace, "decisions", selector+name, list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, noDecisionError(ctx, env, namespace, name)
	}
	return list, nil
}

// noDecisionError returns why no decision about a pod is recorded: the pod does not exist, or no scheduler has tried it.
func noDecisionError(ctx context.Context, env *Env, namespace, name string) error {
	c, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return err
	}
	pod, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case pod.Spec.NodeName != "":
		return fmt.Errorf("no decision about pod %q is recorded in namespace %q; it is on node %s", name, namespace, pod.Spec.NodeName)
	}
	return fmt.Errorf("no decision about pod %q is recorded in namespace %q; its scheduler is %s", name, namespace, pod.Spec.SchedulerName)
}

// podName returns the pod's name from "pod/x", "pod x" or "x".
func podName(args []string) (string, error) {
	kind, name, slash := strings.Cut(args[0], "/")
	if !slash {
		if len(args) == 1 {
			return args[0], nil
		}
		name = args[1]
	}
	if isPods(kind) {
		return name, nil
	}
	return "", fmt.Errorf("%s/%s is not a pod; only pods have decisions: minikctl why pod/NAME, or -l SELECTOR for several pods", kind, name)
}

// isPods reports whether a word is the resource of pods.
func isPods(word string) bool { return slices.Contains([]string{"pod", "pods", "po"}, word) }

// printGroup writes the outcome of a pod's PodGroup, and the pods for which it found no node.
func printGroup(w io.Writer, g *minikctl.GroupAttempt) {
	if g == nil {
		return
	}
	fmt.Fprintf(w, "PodGroup %s: %s, %d of %d pods found a node\n", g.Name, g.Outcome, g.Placed, g.Pods)
	for _, b := range g.Blocking {
		fmt.Fprintf(w, "  %s: %s\n", b.Pod, b.Message)
	}
	printNoPlacement(w, g)
}

// printNoPlacement writes why no pod of a pod's PodGroup was tried, if a plugin found no placement for it.
func printNoPlacement(w io.Writer, g *minikctl.GroupAttempt) {
	if g == nil || g.RejectedBy == "" || len(g.Placements) > 0 {
		return
	}
	fmt.Fprintf(w, "%s rejected the PodGroup %s before a pod of it was tried on a node: %s\n", g.RejectedBy, g.Name, g.Message)
	for _, key := range g.TopologyKeys {
		fmt.Fprintf(w, "Its placements are the nodes with the same value of the label %s: minikctl get nodes -L %[1]s\n", key)
	}
}

// printPlacements writes the placements in which a pod's PodGroup was tried, as text of at most width columns; 0 means any width.
func printPlacements(w io.Writer, g *minikctl.GroupAttempt, width int) error {
	if g == nil || len(g.Placements) == 0 {
		return nil
	}
	var rows [][]string
	for _, p := range g.Placements {
		total, details := "", ""
		if len(p.Plugins) > 0 {
			total, details = fmt.Sprint(p.Total), scoreList(p.Plugins)
		} else if p.Blocking != nil {
			details = p.Blocking.Pod + ": " + p.Blocking.Message
		}
		rows = append(rows, []string{total, p.Outcome, p.Name, fmt.Sprint(p.Nodes), fmt.Sprintf("%d/%d", p.Placed, g.Pods), details})
	}
	return printFitted(w, "\nPlacements of the PodGroup (scores: normalised × weight):", []string{"TOTAL", "OUTCOME", "PLACEMENT", "NODES", "PODS", "DETAILS"}, rows, width)
}

// scoreList returns the scores of plugins as a list.
func scoreList(of []minikctl.PluginScore) string {
	plugins := make([]string, len(of))
	for i, p := range of {
		plugins[i] = fmt.Sprintf("%s %d", p.Plugin, p.Score)
	}
	return strings.Join(plugins, ", ")
}

// printOutcome writes the outcome of a decision, and what woke the pod.
func printOutcome(w io.Writer, d *minikctl.Decision, width int) {
	where := ""
	switch {
	case d.Node != "" && d.Outcome == "Scheduled":
		where = " to " + d.Node
	case d.Node != "": // a plugin that is called after the choice, or the API, refused it
		where = " after " + d.Node + " was chosen"
	}
	fmt.Fprintf(w, "pod/%s: attempt %d of profile %s: %s%s\n", d.Pod, d.Attempt, d.Profile, d.Outcome, where)
	if k := d.WokenBy; k != nil {
		woken := "woken by " + k.Event
		if k.Object != "" {
			woken += " of " + k.Object
		}
		if k.Plugin != "" {
			woken += ", which may satisfy " + k.Plugin
		}
		fmt.Fprintln(w, woken)
	}
	if d.Nodes > 0 { // else the record has no evaluation
		fmt.Fprintf(w, "%d of %d nodes evaluated, %d feasible, in %s\n", d.Evaluated, d.Nodes, d.Feasible, short(d.Since()))
	}
	if d.Message != "" {
		for _, line := range wrap(d.Message, cmp.Or(width, len(d.Message))) {
			fmt.Fprintln(w, line)
		}
	}
}

// printDecision writes a decision as text of at most width columns; 0 means any width.
func printDecision(w io.Writer, d *minikctl.Decision, width int) error {
	printOutcome(w, d, width)
	printGroup(w, d.Group)
	if err := printPlacements(w, d.Group, width); err != nil {
		return err
	}
	if len(d.Rejected) > 0 {
		var rows [][]string
		for _, r := range d.Rejected {
			nodes := strings.Join(r.Nodes, " ")
			if r.Count > len(r.Nodes) {
				nodes += " …"
			}
			reasons := strings.Join(r.Reasons, ", ")
			if len(r.Details) > 0 {
				reasons += ": " + strings.Join(r.Details, ", ")
			}
			rows = append(rows, []string{fmt.Sprint(r.Count), r.Plugin, reasons, nodes})
		}
		if err := printFitted(w, "\nRejected:", []string{"COUNT", "PLUGIN", "REASON", "NODES"}, rows, width); err != nil {
			return err
		}
	}
	if len(d.Extenders) > 0 {
		var rows [][]string
		for _, x := range d.Extenders {
			rows = append(rows, []string{x.Extender, x.Verb, x.Outcome, short(x.Took), x.Message})
		}
		if err := printFitted(w, "\nExtenders:", []string{"EXTENDER", "VERB", "OUTCOME", "TOOK", "MESSAGE"}, rows, width); err != nil {
			return err
		}
	}
	if p := d.Preemption; p != nil {
		fmt.Fprintf(w, "\nEvicts from %s: %s\n", p.Node, strings.Join(p.Victims, ", "))
		if p.Violations > 0 {
			fmt.Fprintf(w, "%d of them in spite of a PodDisruptionBudget\n", p.Violations)
		}
	}
	if len(d.Scores) == 0 {
		return nil
	}
	var rows [][]string
	for _, s := range d.Scores {
		for _, node := range s.Nodes {
			mark := ""
			if node == d.Node {
				mark = "chosen"
			}
			rows = append(rows, []string{fmt.Sprint(s.Total), mark, node, scoreList(s.Plugins)})
		}
	}
	return printFitted(w, "\nScores (normalised × weight):", []string{"TOTAL", "", "NODE", "PLUGINS"}, rows, width)
}

// printFitted writes a title and a table of at most width columns.
func printFitted(w io.Writer, title string, headers []string, rows [][]string, width int) error {
	fmt.Fprintln(w, title)
	t := newTable(w, headers...)
	for _, row := range fit(rows, headers, width) {
		if err := t.Append(row); err != nil {
			return err
		}
	}
	return t.Render()
}
