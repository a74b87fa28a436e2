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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
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
	return l.printLogs(cmd.Context())
}

// podTries is how many pods of a workload logs tries. Pods here end fast: after a scale-down the pod that kubectl's code chooses may be
// gone when its log is requested.
const podTries = 5

func (l *logsVerb) printLogs(ctx context.Context) error {
	tries := podTries
	switch l.Object.(type) {
	case *corev1.Pod, *corev1.PodList:
		tries = 1
	}
	if l.AllPods || l.Target.remote {
		tries = 1
	}
	err := l.RunLogsContext(ctx)
	for try := 1; try < tries && apierrors.IsNotFound(err); try++ {
		err = l.RunLogsContext(ctx)
	}
	return err
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
	if len(args) == 0 || slices.ContainsFunc(args, func(a string) bool { return !strings.Contains(a, "/") }) {
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
	clients, err := l.Factory.KubernetesClientSet()
	if err != nil {
		return err
	}
	pods, err := l.selections(clients, namespace, args)
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

// selections returns the pods of the selector or of the objects that args name.
func (l *logsVerb) selections(clients kubernetes.Interface, namespace string, args []string) ([]follow.Selection, error) {
	if l.Selector != "" {
		return []follow.Selection{{Pods: metav1.ListOptions{LabelSelector: l.Selector}}}, nil
	}
	var out []follow.Selection
	infos, err := l.Factory.NewBuilder().WithScheme(scheme.Scheme, scheme.Scheme.PrioritizedVersionsAllGroups()...).
		NamespaceParam(namespace).DefaultNamespace().ResourceNames("pods", args...).Do().Infos()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		s, err := selectionOf(clients, info.Object)
		if err != nil {
			return nil, cmdutil.AddSourceToErr("following", info.ObjectName(), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// selectionOf returns the pods of an object: a pod itself by its name. Those of a Job are complete when it has ended.
func selectionOf(clients kubernetes.Interface, obj runtime.Object) (follow.Selection, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return follow.Selection{Pods: metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String()}}, nil
	}
	_, selector, err := polymorphichelpers.SelectorsForObject(obj)
	if err != nil {
		return follow.Selection{}, err
	}
	s := follow.Selection{Pods: metav1.ListOptions{LabelSelector: selector.String()}}
	if job, ok := obj.(*batchv1.Job); ok {
		s.Complete = func(ctx context.Context) error { return jobEnded(ctx, clients, job.Namespace, job.Name) }
	}
	return s, nil
}

// jobEnded returns when the Job is complete, has failed or is deleted. If listing Jobs is forbidden, it returns at once, since the informer of
// UntilWithSync retries a forbidden list without end.
func jobEnded(ctx context.Context, clients kubernetes.Interface, namespace, name string) error {
	_, err := clients.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), Limit: 1})
	if apierrors.IsForbidden(err) {
		return nil
	}
	one := cache.NewListWatchFromClient(clients.BatchV1().RESTClient(), "jobs", namespace, fields.OneTermEqualSelector("metadata.name", name))
	gone := func(store cache.Store) (bool, error) { return len(store.List()) == 0, nil }
	_, err = watchtools.UntilWithSync(ctx, one, &batchv1.Job{}, gone, func(ev watch.Event) (bool, error) {
		job, ok := ev.Object.(*batchv1.Job)
		return ev.Type == watch.Deleted || ok && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		}), nil
	})
	if wait.Interrupted(err) && ctx.Err() != nil {
		return nil // the caller ends
	}
	return err
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
