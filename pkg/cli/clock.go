package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/plug"
)

func newClock(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show and advance the clock of a cluster",
		Long: `Show and advance the clock of a cluster. A cluster that was started with "minikctl up --clock=manual" has a clock that stands
still until it is advanced: timestamps, expiry, Leases, the requeues and backoffs of controllers, scheduler and kubelets, and
simulated pods follow it. Processes keep the time of the machine.`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	cmd.AddCommand(newClockShow(env), newClockAdvance(env))
	return cmd
}

func newClockShow(env *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the time of the cluster, and how it passes",
		Args:  arguments("", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := &minikctl.Clock{}
			if err := getVirtual(cmd.Context(), env, "", "clocks/"+minikctl.ClusterClock, "", c); err != nil {
				return err
			}
			if output != "" {
				return printAs(env, output, c)
			}
			fmt.Fprintln(env.Out, describeClock(c, env.Now()))
			return nil
		},
	}
	addOutput(cmd, &output, "text", "json", "yaml")
	return cmd
}

// describeClock returns one line about a clock. machine is the time of the machine.
func describeClock(c *minikctl.Clock, machine time.Time) string {
	now := stamp(c.Time)
	switch {
	case c.Mode == minikctl.ClockMachine:
		return now + ", the time of the machine"
	case c.Mode == minikctl.ClockFast && c.Rate == 1: // the clock was fast or manual before
		return fmt.Sprintf("%s, as fast as the time of the machine, which is behind by %s", now, duration.HumanDuration(c.Time.Sub(machine)))
	case c.Mode == minikctl.ClockFast:
		return fmt.Sprintf("%s, %g times as fast as the time of the machine", now, c.Rate)
	case c.Next == nil:
		return now + ", until it is advanced; nothing is due"
	}
	return fmt.Sprintf("%s, until it is advanced; next due in %s", now, c.Next.Sub(c.Time.Time))
}

func stamp(t metav1.MicroTime) string { return t.UTC().Format(time.RFC3339Nano) }

func newClockAdvance(env *Env) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "advance DURATION",
		Short: "Advance a manual clock, and return when everything that became due is done",
		Long: `Advance a manual clock, and return when everything that became due is done. The clock moves from one time at which something is
due to the next, and waits at each until the cluster has settled: no controller, cache, scheduler or simulated node has anything to do.
"advance 0s" only waits until the cluster has settled.`,
		Example: `  minikctl apply -f web.yaml
  minikctl clock advance 0s
  minikctl clock advance 90m
  minikctl clock advance --to 2026-03-01T00:00:00Z`,
		Args: arguments("", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a := &minikctl.ClockAdvance{}
			switch {
			case (len(args) == 1) == (to != ""):
				return cmdutil.UsageErrorf(cmd, "either a DURATION or --to is needed")
			case to != "":
				t, err := time.Parse(time.RFC3339, to)
				if err != nil {
					return cmdutil.UsageErrorf(cmd, "--to: %q is not a time such as 2026-01-02T15:04:05Z", to)
				}
				a.To = new(metav1.NewMicroTime(t))
			default:
				var err error
				if a.By.Duration, err = parseAdvance(args[0]); err != nil {
					return cmdutil.UsageErrorf(cmd, "%v", err)
				}
			}
			reached, err := advance(cmd.Context(), env, a)
			if err != nil {
				return err
			}
			fmt.Fprintln(env.Out, stamp(reached))
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the time to advance to, as 2026-01-02T15:04:05Z")
	return cmd
}

// parseAdvance parses the duration by which to advance a clock.
func parseAdvance(text string) (time.Duration, error) {
	d, err := plug.ParseDuration(text)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("%q is negative: a clock never goes back", text)
	}
	return d, err
}

// advance creates advances until the clock has got there, and returns its time.
func advance(ctx context.Context, env *Env, a *minikctl.ClockAdvance) (metav1.MicroTime, error) {
	c, err := clientOf(env)
	if err != nil {
		return metav1.MicroTime{}, err
	}
	if a.To == nil { // a request that is continued needs the target
		now := &minikctl.Clock{}
		if err := getVirtual(ctx, env, "", "clocks/"+minikctl.ClusterClock, "", now); err != nil {
			return metav1.MicroTime{}, err
		}
		a = &minikctl.ClockAdvance{To: new(metav1.NewMicroTime(now.Time.Add(a.By.Duration)))}
	}
	a.SetGroupVersionKind(minikctl.GroupVersion.WithKind("ClockAdvance"))
	body, err := json.Marshal(a)
	if err != nil {
		return metav1.MicroTime{}, err
	}
	shown := showTime(ctx, env)
	defer shown()
	for {
		result := c.Post().AbsPath("apis", minikctl.GroupVersion.Group, minikctl.GroupVersion.Version, minikctl.ClockAdvances.Resource).
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx)
		if err := result.Error(); err != nil {
			return metav1.MicroTime{}, err
		}
		raw, err := result.Raw()
		if err != nil {
			return metav1.MicroTime{}, err
		}
		out := &minikctl.ClockAdvance{}
		if err := json.Unmarshal(raw, out); err != nil {
			return metav1.MicroTime{}, err
		}
		if out.Done {
			return out.Reached, nil
		}
	}
}

// showTime shows the time of the cluster on a terminal while it is advanced, in one line of the error output. The returned func removes the line.
func showTime(ctx context.Context, env *Env) (end func()) {
	if !isTerminal(env.Err) {
		return func() {}
	}
	const every = time.Second
	const clear = "\r\x1b[K"
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.Sleep(ctx, clock.Real(), every) == nil {
			now := &minikctl.Clock{}
			if err := getVirtual(ctx, env, "", "clocks/"+minikctl.ClusterClock, "", now); err == nil {
				fmt.Fprint(env.Err, clear, now.Time.UTC().Format(time.RFC3339))
			}
		}
		fmt.Fprint(env.Err, clear)
	}()
	return func() {
		cancel()
		<-done
	}
}

func clientOf(env *Env) (rest.Interface, error) {
	c, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	return c.CoreV1().RESTClient(), nil
}
