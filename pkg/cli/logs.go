package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	kubectl "k8s.io/kubectl/pkg/cmd/logs"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/minikctl/minikctl/pkg/cli/internal/follow"
)

// logsVerb is the verb logs: kubectl's logs, the flag --daemon, and following many pods.
type logsVerb struct {
	*Env
	*kubectl.LogsOptions
	daemon bool
}

func newLogs(env *Env) *cobra.Command {
	l := &logsVerb{Env: env, LogsOptions: kubectl.NewLogsOptions(env.Streams())}
	cmd := kubectl.NewCmdLogs(env.Factory, env.Streams())
	cmd.ResetFlags()
	l.AddFlags(cmd)
	cmd.Flags().BoolVar(&l.daemon, "daemon", false, "Print the log of the cluster's daemon instead of a container's log")
	if !env.Target.remote {
		cmd.Long += ` With --follow and a selector, a workload or several TYPE/NAME the logs of all pods are printed, of those that join later, too.
On a terminal each line has its pod in front, in a colour of its own; without colours if NO_COLOR is set.`
		cmd.Example += `

  # Follow all pods of a deployment, and of two workloads
  minikctl logs -f deployment/web
  minikctl logs -f deployment/web statefulset/db`
	}
	cmd.Run = nil
	cmd.RunE = l.run
	return cmd
}

func (l *logsVerb) run(cmd *cobra.Command, args []string) error {
	if l.daemon {
		return l.printDaemon(args)
	}
	if l.many(args) {
		return l.follow(cmd, args)
	}
	if err := l.Complete(l.Factory, cmd, args); err != nil {
		return err
	}
	if err := l.Validate(); err != nil {
		return err
	}
	return l.RunLogsContext(cmd.Context())
}

func (l *logsVerb) printDaemon(args []string) error {
	if len(args) > 0 {
		return errors.New("--daemon prints the daemon's log and takes no pod")
	}
	if !l.Target.local() {
		return errors.New("--daemon prints the log of a local daemon: see --name")
	}
	return printDaemonLog(l.Env)
}

// many reports whether the pods of a selector, a workload or several objects are followed. kubectl follows those that are there at the
// start, or one pod of a workload.
func (l *logsVerb) many(args []string) bool {
	if !l.Follow || l.Previous || l.Target.remote || l.LimitBytes != 0 {
		return false
	}
	if l.Selector != "" {
		return len(args) == 0
	}
	named := func(arg string) bool { return strings.Contains(arg, "/") }
	if len(args) == 0 || slices.ContainsFunc(args, func(a string) bool { return !named(a) }) {
		return false
	}
	kind, _, _ := strings.Cut(args[0], "/")
	return len(args) > 1 || !slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(kind))
}

// follow follows the logs of many pods.
func (l *logsVerb) follow(cmd *cobra.Command, args []string) error {
	l.TailSpecified, l.ContainerNameSpecified = cmd.Flag("tail").Changed, cmd.Flag("container").Changed
	opts, err := l.ToLogOptions()
	if err != nil {
		return err
	}
	l.Options = opts
	if err := l.Validate(); err != nil {
		return err
	}
	namespace, _, err := l.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	pods, err := l.selectors(namespace, args)
	if err != nil {
		return err
	}
	clients, err := l.Factory.KubernetesClientSet()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	p := newPrefixes(l.Out, l.Prefix || l.AllPods)
	f := &follow.Follower{
		Client: clients.CoreV1().Pods(namespace), Pods: pods, Container: l.Container, AllContainers: l.AllContainers, Options: *opts,
		IgnoreErrors: l.IgnoreLogErrors, Print: p.print, Warn: func(err error) { fmt.Fprintln(l.Err, "error:", err) },
	}
	return f.Run(ctx)
}

// selectors returns the selectors of the pods.
func (l *logsVerb) selectors(namespace string, args []string) ([]metav1.ListOptions, error) {
	if l.Selector != "" {
		return []metav1.ListOptions{{LabelSelector: l.Selector}}, nil
	}
	var out []metav1.ListOptions
	infos, err := l.Factory.NewBuilder().WithScheme(scheme.Scheme, scheme.Scheme.PrioritizedVersionsAllGroups()...).
		NamespaceParam(namespace).DefaultNamespace().ResourceNames("pods", args...).Do().Infos()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		opts, err := podsOf(info.Object)
		if err != nil {
			return nil, cmdutil.AddSourceToErr("following", info.ObjectName(), err)
		}
		out = append(out, opts)
	}
	return out, nil
}

// podsOf returns the selector of an object's pods: of a pod itself by its name.
func podsOf(obj runtime.Object) (metav1.ListOptions, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String()}, nil
	}
	_, selector, err := polymorphichelpers.SelectorsForObject(obj)
	if err != nil {
		return metav1.ListOptions{}, err
	}
	return metav1.ListOptions{LabelSelector: selector.String()}, nil
}

func printDaemonLog(env *Env) error {
	f, err := os.Open(env.Target.Paths().Log)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster %q has no log: a daemon in the foreground writes to its terminal", env.Target.name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(env.Out, f)
	return err
}
