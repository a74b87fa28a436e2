package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func newWhy(env *Env) *cobra.Command {
	var all bool
	var output string
	cmd := &cobra.Command{
		Use:   "why pod/NAME",
		Short: "Show why a pod is on its node, or why it is on none",
		Long: `Show how the scheduler decided about a pod: which nodes were looked at, which plugin refused which nodes and why, and how
the others scored. The same records: minikctl get decisions.minikctl.dev`,
		Example: `  minikctl why pod/web-5c9f7d-x2x7k
  minikctl why pod web-5c9f7d-x2x7k --all`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := podName(args)
			if err != nil {
				return err
			}
			namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
			if err != nil {
				return err
			}
			list := &minikctl.DecisionList{}
			if err := getVirtual(cmd.Context(), env, namespace, "decisions", minikctl.PodLabel+"="+name, list); err != nil {
				return err
			}
			if len(list.Items) == 0 {
				return undecided(cmd.Context(), env, namespace, name)
			}
			if !all {
				list.Items = list.Items[len(list.Items)-1:]
			}
			if output == "json" {
				e := json.NewEncoder(env.Out)
				e.SetIndent("", "  ")
				return e.Encode(list)
			}
			for i := range list.Items {
				if err := printDecision(env.Out, &list.Items[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "show every attempt, not only the last")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for text")
	return cmd
}

// undecided says why nothing is recorded about a pod: it is not there, or nobody has looked for a node for it.
func undecided(ctx context.Context, env *Env, namespace, name string) error {
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

// podName takes "pod/x", "pod x" and "x".
func podName(args []string) (string, error) {
	kind, name, slash := strings.Cut(args[0], "/")
	if !slash {
		if len(args) == 1 {
			return args[0], nil
		}
		name = args[1]
	}
	switch kind {
	case "pod", "pods", "po":
		return name, nil
	}
	return "", fmt.Errorf("only pods are scheduled, and %s/%s is none: minikctl why pod/NAME", kind, name)
}

func printDecision(w io.Writer, d *minikctl.Decision) error {
	where := ""
	if d.Node != "" {
		where = " to " + d.Node
	}
	fmt.Fprintf(w, "pod/%s: attempt %d of profile %s: %s%s\n", d.Pod, d.Attempt, d.Profile, d.Outcome, where)
	fmt.Fprintf(w, "%d of %d nodes were looked at, %d passed; it took %s\n", d.Evaluated, d.Nodes, d.Feasible, short(d.Since()))
	if d.Message != "" {
		fmt.Fprintln(w, d.Message)
	}
	if len(d.Rejected) > 0 {
		fmt.Fprintln(w, "\nRefused:")
		t := newTable(w, "PLUGIN", "NODES", "WHY", "WHICH")
		for _, r := range d.Rejected {
			which := strings.Join(r.Nodes, " ")
			if r.Count > len(r.Nodes) {
				which += " …"
			}
			if err := t.Append([]string{r.Plugin, fmt.Sprint(r.Count), strings.Join(r.Reasons, ", "), which}); err != nil {
				return err
			}
		}
		if err := t.Render(); err != nil {
			return err
		}
	}
	return printScores(w, d.Scores)
}

func printScores(w io.Writer, scores []minikctl.NodeScore) error {
	if len(scores) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nScores (normalised × weight):")
	header := []string{"NODE", "TOTAL"}
	for _, p := range scores[0].Plugins {
		header = append(header, p.Plugin)
	}
	t := newTable(w, header...)
	for _, s := range scores {
		row := []string{s.Node, fmt.Sprint(s.Total)}
		for _, p := range s.Plugins {
			row = append(row, fmt.Sprint(p.Score))
		}
		if err := t.Append(row); err != nil {
			return err
		}
	}
	return t.Render()
}
