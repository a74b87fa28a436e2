package cli

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/cmd/rollout"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/minikctl/minikctl/pkg/apply"
	"github.com/minikctl/minikctl/pkg/clock"
)

// newRollout returns kubectl's rollout. On a terminal rollout status shows the pods as a live tree.
func newRollout(env *Env) *cobra.Command {
	streams, out := env.Streams(), &divertedWriter{to: env.Out}
	if env.Target.remote || !isTerminal(env.Out) {
		return rollout.NewCmdRollout("minikctl", env.Factory, streams)
	}
	streams.Out = out
	cmd := rollout.NewCmdRollout("minikctl", env.Factory, streams)
	status, _, err := cmd.Find([]string{"status"})
	if err != nil || status == cmd {
		return cmd
	}
	run := status.Run
	status.Run = func(cmd *cobra.Command, args []string) {
		defer showRollout(cmd, env, out, args)()
		run(cmd, args)
	}
	return cmd
}

// divertedWriter writes to to.
type divertedWriter struct{ to io.Writer }

func (w *divertedWriter) Write(b []byte) (int, error) { return w.to.Write(b) }

// showRollout shows the pods of the one object that args name, and what kubectl prints about it, until the function that it returns is
// called. It leaves other command lines alone.
func showRollout(cmd *cobra.Command, env *Env, out *divertedWriter, args []string) (end func()) {
	info := rolloutOf(cmd, env, args)
	if info == nil {
		return func() {}
	}
	clients, err := env.Factory.KubernetesClientSet()
	if err != nil {
		return func() {}
	}
	view := newProgress(env.Out)
	out.to = writerFunc(func(b []byte) {
		view.report(apply.Progress{Object: apply.Name(info), Text: string(bytes.TrimSpace(b))})
	})
	ctx, cancel := context.WithCancel(cmd.Context())
	waiter := &apply.Waiter{Clients: clients, Clock: clock.Real(), Report: view.report}
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = waiter.FollowPods(ctx, info) // kubectl's own watch reports the error
	})
	return func() {
		cancel()
		wg.Wait()
		out.to = env.Out
		view.close()
	}
}

// rolloutOf returns the object of a rollout status that watches one object, nil for any other.
func rolloutOf(cmd *cobra.Command, env *Env, args []string) *resource.Info {
	watch, err := cmd.Flags().GetBool("watch")
	namespace, _, nsErr := env.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil || nsErr != nil || !watch || len(args) == 0 || cmd.Flags().Changed("filename") || cmd.Flags().Changed("kustomize") {
		return nil
	}
	infos, err := env.Factory.NewBuilder().WithScheme(scheme.Scheme, scheme.Scheme.PrioritizedVersionsAllGroups()...).NamespaceParam(namespace).DefaultNamespace().ResourceTypeOrNameArgs(true, args...).Latest().Flatten().Do().Infos()
	if err != nil || len(infos) != 1 {
		return nil // kubectl reports the error
	}
	return infos[0]
}

// writerFunc is a writer that passes on what is written.
type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
