package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// scheduleFlags are the flags of simulations.
type scheduleFlags struct {
	source string // the flags of which one is needed
	files  []string
	drain  []string
	nodes  string
	config string
	output string
	seed   uint64
}

func newSchedule(env *Env) *cobra.Command {
	f := scheduleFlags{source: "-f or --drain"}
	dryRun := true
	cmd := &cobra.Command{
		Use:   "schedule --dry-run (-f FILE | --drain NODE)",
		Short: "Show where pods would go and how many more fit, without changing the cluster",
		Long: `Show where the pods of manifests would go, and how many more of them fit. Nothing is changed: the scheduler's engine runs in this
process on a copy of the cluster. The cluster is the running one, or any other that --context or --kubeconfig selects, which is only read;
or that of --nodes-from or of -f, if they have Nodes: then no cluster is needed. The configuration is that of --config; otherwise the one
that runs, or Kubernetes' defaults if the cluster is that of files, or not one of minikctl.

Manifests may have Pods, Deployments, ReplicaSets, StatefulSets and Jobs. Pods arrive at the same time, so those of higher priority go
first; a pod that evicts others is shown with them. Pods of a PodGroup are placed only if as many of them as it needs find a node; those of
a group of scheduling.x-k8s.io only if their profile has the plugin Coscheduling, and otherwise one by one. PersistentVolumeClaims, also those
of StatefulSets' templates, get volumes as in a cluster, and ResourceClaims, also those of ResourceClaimTemplates, devices.

With --drain the pods are those that controllers create in the place of the nodes' pods when the nodes are drained. Warnings name the
pods that no controller replaces, and the PodDisruptionBudgets that would delay the drain.`,
		Example: `  minikctl schedule --dry-run -f pods.yaml
  minikctl schedule --dry-run -f pods.yaml --config other.yaml
  kubectl get nodes,pods,pvc,pv,storageclasses -A -o yaml > snapshot.yaml
  minikctl schedule --dry-run -f pods.yaml --nodes-from snapshot.yaml
  kubectl get nodes,pods,resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses -A -o yaml > devices.yaml
  minikctl schedule --dry-run --drain node-1         # where the pods of a node would go
  minikctl schedule --dry-run -f pods.yaml --context production`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !dryRun {
				return cmdutil.UsageErrorf(cmd, "schedule only simulates; apply the manifests to create pods")
			}
			cluster, workloads, config, err := f.load(cmd.Context(), env)
			if err != nil {
				return err
			}
			replaced, warnings, err := cluster.Drain(f.drain)
			if err != nil {
				return err
			}
			for _, w := range warnings {
				fmt.Fprintln(env.Err, "Warning:", w)
			}
			workloads = append(replaced, workloads...)
			for _, w := range cluster.Guessed(workloads) {
				fmt.Fprintln(env.Err, "Warning:", w)
			}
			got, err := whatif.Run(cmd.Context(), cluster.Simulation(env.Plugins, config), cluster, workloads, f.seed)
			if err != nil {
				return configError(f.config, err)
			}
			if f.output != "" {
				return printAs(env, f.output, got)
			}
			return printDryRun(env, got)
		},
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.drain, "drain", nil, "nodes that are drained first")
	complete(cmd, "drain", completeNames(env, "nodes"))
	cmd.Flags().BoolVar(&dryRun, "dry-run", true, "simulate, the only mode")
	cmd.Flags().StringVar(&f.config, "config", "", "a KubeSchedulerConfiguration file (default: the configuration that runs)")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "draws among equally good nodes")
	addOutput(cmd, &f.output, "text", "json", "yaml")
	cmd.AddCommand(newScheduleCompare(env), newScheduleReplay(env))
	return cmd
}

func (f *scheduleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&f.files, "filename", "f", nil, "files with the pods, and nodes of a cluster that does not run")
	cmd.Flags().StringVar(&f.nodes, "nodes-from", "", "a file with the nodes, pods, volumes and devices of another cluster, as kubectl get nodes,pods,pvc,pv,storageclasses -A -o yaml writes it")
}

// load returns the cluster, the workloads and the configuration, nil for the defaults.
func (f *scheduleFlags) load(ctx context.Context, env *Env) (*whatif.Cluster, []whatif.Workload, *configv1.KubeSchedulerConfiguration, error) {
	m, err := f.manifests(env)
	if err != nil {
		return nil, nil, nil, err
	}
	offline := len(m.Nodes) > 0
	switch {
	case offline && env.Target.chosen():
		return nil, nil, nil, errors.New("the cluster is either that of --context and --kubeconfig, or that of the Nodes in files")
	case !offline:
		if err := fetchCluster(ctx, env, &m.Cluster); err != nil {
			return nil, nil, nil, err
		}
	}
	if err := m.Complete(); err != nil {
		return nil, nil, nil, err
	}
	if f.config == "" && offline {
		return &m.Cluster, m.Workloads, nil, nil
	}
	configs, err := configsOf(ctx, env, f.config)
	if apierrors.IsNotFound(err) { // a cluster of another kind
		fmt.Fprintln(env.Err, "Warning: the cluster does not publish its scheduler's configuration; this is with Kubernetes' defaults, unless --config is given")
		return &m.Cluster, m.Workloads, nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return &m.Cluster, m.Workloads, configs[0], nil
}

// manifests reads the files.
func (f *scheduleFlags) manifests(env *Env) (*whatif.Manifests, error) {
	if len(f.files) == 0 && len(f.drain) == 0 {
		return nil, fmt.Errorf("must specify %s", f.source)
	}
	var list []whatif.Manifest
	var err error
	if len(f.files) > 0 {
		if list, err = readObjects(env, f.files); err != nil {
			return nil, err
		}
	}
	m, skipped, err := whatif.Read(list, metav1.NamespaceDefault)
	if err != nil {
		return nil, err
	}
	if len(skipped) > 0 {
		fmt.Fprintf(env.Err, "Warning: not simulated: %s\n", strings.Join(skipped, ", "))
	}
	if len(m.Workloads) == 0 && len(f.drain) == 0 {
		return nil, fmt.Errorf("%s: no pods to schedule", strings.Join(f.files, ", "))
	}
	if f.nodes == "" {
		return m, nil
	}
	if list, err = readObjects(env, []string{f.nodes}); err != nil {
		return nil, err
	}
	other, _, err := whatif.Read(list, metav1.NamespaceDefault)
	if err != nil {
		return nil, err
	}
	if len(other.Nodes) == 0 {
		return nil, fmt.Errorf("%s: no nodes", f.nodes)
	}
	m.Append(other)
	return m, nil
}

// readObjects reads manifests without requests.
func readObjects(env *Env, files []string) ([]whatif.Manifest, error) {
	options := resource.FilenameOptions{Filenames: files}
	infos, err := resource.NewLocalBuilder().Unstructured().ContinueOnError().FilenameParam(false, &options).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	var out []whatif.Manifest
	for _, i := range infos {
		if u, ok := i.Object.(*unstructured.Unstructured); ok {
			out = append(out, whatif.Manifest{Unstructured: u, File: i.Source})
		}
	}
	return out, nil
}

func printDryRun(env *Env, d *whatif.DryRun) error {
	if len(d.Pods) == 0 { // of a drain: files without pods are an error
		fmt.Fprintln(env.Out, "Nothing to place: no controller would create a pod in the place of one of the drained nodes.")
		return nil
	}
	var rows [][]string
	for _, p := range d.Pods {
		node, note := p.Node, p.Message
		if node == "" {
			node = "<none>"
		}
		if len(p.Evicts) > 0 {
			note = strings.TrimSpace("evicts " + strings.Join(p.Evicts, ", ") + " " + note)
		}
		rows = append(rows, []string{p.Namespace + "/" + p.Name, node, note})
	}
	if err := printRows(env, []string{"POD", "NODE", "NOTE"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(env.Out)
	rows = nil
	for _, w := range d.Workloads {
		more := fmt.Sprint(w.More)
		if w.More == whatif.MaxFit {
			more += "+"
		}
		rows = append(rows, []string{w.Name, fmt.Sprint(w.Placed), fmt.Sprint(w.Pending), more})
	}
	return printRows(env, []string{"WORKLOAD", "PLACED", "PENDING", "MORE FIT"}, rows)
}
