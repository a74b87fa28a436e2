package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/minikctl/minikctl/pkg/daemon"
)

func newUp(env *Env) *cobra.Command {
	var background, wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster",
		Long: `Start a cluster: API server, controllers, scheduler and kubelets, in one process that stays in the foreground until
Ctrl-C, or with -d in the background. Pods continue when the daemon ends, and the next daemon adopts them; "minikctl down"
ends both. Settings come from --config, then MINIKCTL_* variables (MINIKCTL_NODES=3), then flags.`,
		Example: `  # A cluster with three nodes, in the background
  minikctl up -d --nodes 3

  # An API server alone, on a port of its own
  minikctl up --only apiserver --listen 127.0.0.1:6443 --write-kubeconfig ./kubeconfig

  # The scheduler as a process of its own
  minikctl up --only scheduler --kubeconfig ./kubeconfig

  # 100 simulated nodes beside the one that runs processes
  minikctl up --nodes 1 --sim-nodes 100`,
		Args: noName,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait && !background {
				return errors.New("--wait needs --detach")
			}
			name := partName(env.Target.name, cmd.Flags())
			cfg, err := daemon.Load(name, cmd.Flags())
			if err != nil {
				return recordFailedUp(name, err)
			}
			if background {
				if err := upBackground(cmd, env, cfg); err != nil || !wait {
					return err
				}
				return waitForWorkloads(cmd.Context(), env, timeout)
			}
			return upForeground(cmd.Context(), env, cfg)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVarP(&background, "detach", "d", false, "run in the background; returns when the API and the nodes are ready")
	cmd.Flags().BoolVar(&wait, "wait", false, "with --detach: show the pods that ran before come up (as a live tree on a terminal), and wait until they are ready and stay ready for a second")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long --wait waits before it fails; 0 means without limit")
	daemon.AddFlags(cmd.Flags())
	for flag, words := range map[string][]string{
		"only": daemon.Parts, "clock": {"machine", "manual"}, "store": {"badger", "memory"}, "log-level": {"debug", "info", "warn", "error"},
	} {
		complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// partName returns name. For a daemon without an API server and without --name it derives another name, so that the
// daemon's data is separate from that of the cluster.
func partName(name string, flags *pflag.FlagSet) string {
	only, err := flags.GetStringSlice("only")
	if err != nil || len(only) == 0 || slices.Contains(only, "apiserver") || flags.Changed("name") {
		return name
	}
	for _, part := range only {
		if !slices.Contains(daemon.Parts, part) {
			return name // up fails
		}
	}
	return name + "-" + strings.Join(only, "-")
}

func upForeground(ctx context.Context, env *Env, cfg *daemon.Config) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	ready := false
	twwidth.SetCacheCapacity(0) // a megabyte, and the daemon prints no tables
	err := daemon.Run(ctx, cfg, env.Plugins, func(s daemon.State) {
		ready = true
		reportReady(env, cfg, &s)
	})
	if err != nil && !ready && ctx.Err() == nil { // the user's interrupt is no failure
		return recordFailedUp(cfg.Name, err)
	}
	return err
}

// untilSignal returns a context that ends with Ctrl-C or SIGTERM. A second Ctrl-C ends the program at once. A second SIGTERM has no effect:
// it comes from another down, which waits as well.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	return ctx, stop
}

// recordFailedUp records that up failed and returns its error. It records nothing while the daemon runs.
func recordFailedUp(name string, err error) error {
	if daemon.Alive(daemon.PathsOf(name)) {
		return err
	}
	return errors.Join(err, daemon.RecordFailedUp(name, err))
}

// upState returns the message about a daemon that runs: cluster with an API server, parts without one.
func upState(name string, s *daemon.State, cluster, parts string) string {
	if s.Address != "" {
		return fmt.Sprintf("cluster %q %s at %s", name, cluster, s.Address)
	}
	return fmt.Sprintf("%s of %q %s", strings.Join(s.Parts, ", "), name, parts)
}

func upBackground(cmd *cobra.Command, env *Env, cfg *daemon.Config) error {
	paths := daemon.PathsIn(cfg.Name, cfg.DataDir)
	if daemon.Running(paths) || daemon.RunsParts(paths) {
		return reportRunning(env, cfg, paths)
	}
	if err := daemon.Spawn(cmd.Context(), paths, upArgs(cmd)); err != nil {
		return err
	}
	s, err := daemon.ReadState(paths)
	if err != nil {
		return errors.Join(errors.New("the daemon started but its state cannot be read"), err)
	}
	reportReady(env, cfg, &s)
	return nil
}

// reportReady prints that a daemon is ready, and what its user should know about it.
func reportReady(env *Env, cfg *daemon.Config, s *daemon.State) {
	fmt.Fprintf(env.Out, "minikctl: %s\n", upState(cfg.Name, s, "is ready", "started"))
	if s.KubeconfigError != "" {
		fmt.Fprintf(env.Out, "minikctl: kubectl has no context of it: %s\n", s.KubeconfigError)
	}
	warnAccess(env, cfg)
}

// reportRunning prints that the daemon runs, and which of its settings differ from those of cfg.
func reportRunning(env *Env, cfg *daemon.Config, paths daemon.Paths) error {
	s, err := daemon.ReadState(paths)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "minikctl: %s\n", upState(cfg.Name, &s, "runs already", "run already"))
	different, err := cfg.Differences(paths, s)
	if len(different) > 0 {
		fmt.Fprintf(env.Out, "minikctl: it keeps its own settings, which differ in %s; to change them, stop it first: minikctl down --name %s\n", strings.Join(different, ", "), cfg.Name)
	}
	return err
}

// waitForWorkloads waits until the pods of all namespaces that should run are ready, and prints their progress.
func waitForWorkloads(ctx context.Context, env *Env, limit time.Duration) error {
	all, err := env.Factory.NewBuilder().Unstructured().AllNamespaces(true).Flatten().
		ResourceTypeOrNameArgs(true, "deployments.apps,statefulsets.apps,daemonsets.apps,replicasets.apps,replicationcontrollers,pods").Do().Infos()
	if err != nil {
		return err
	}
	_, err = waitFor(ctx, env, slices.DeleteFunc(all, func(info *resource.Info) bool {
		return !runs(info.Object.(*unstructured.Unstructured))
	}), limit)
	return err
}

// runs reports whether an object that no controller manages is one whose pods should run.
func runs(obj *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase") // of a pod
	ended := phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
	return metav1.GetControllerOfNoCopy(obj) == nil && obj.GetDeletionTimestamp() == nil && !ended
}

// warnAccess prints what containers can access, if they are processes of this machine.
func warnAccess(env *Env, cfg *daemon.Config) {
	switch {
	case !cfg.RunsProcesses():
	case cfg.Kubelet.HavePodUsers():
		fmt.Fprintln(env.Out, "minikctl: containers run without isolation; privileged ones and those with runAsUser: 0 can read the cluster's keys")
	default:
		fmt.Fprintln(env.Out, "minikctl: containers run as this user without isolation, and can read the cluster's keys")
	}
}

// upArgs returns the flags of up for the daemon, without those of the command itself and without --name, which Spawn adds. Relative paths stay:
// the daemon starts in the same directory.
func upArgs(cmd *cobra.Command) []string {
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "detach", "wait", "timeout", "name":
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		args = append(args, "--"+f.Name+"="+value)
	})
	return args
}
