package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/daemon"
)

func newStatus(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the clusters of this user, running or not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := daemon.All()
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(env.Out, "No clusters. Start one with: minikctl up -d")
				return nil
			}
			t := newTable(env.Out, "NAME", "STATE", "PID", "ADDRESS", "PARTS", "AGE", "DATA")
			var notes []string
			for _, p := range all {
				row, note, err := statusRow(cmd.Context(), env, p)
				if err != nil {
					return err
				}
				if note != "" {
					notes = append(notes, p.Name+": "+note)
				}
				if err := t.Append(row); err != nil {
					return err
				}
			}
			if err := t.Render(); err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(env.Out, n)
			}
			return nil
		},
	}
}

// statusRow returns a cluster's row of the table, and a note to print below the table or "".
func statusRow(ctx context.Context, env *Env, p daemon.Paths) (row []string, note string, err error) {
	s, err := daemon.ReadState(p)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	if err != nil || !daemon.Alive(p) {
		state := "stopped"
		if daemon.PodsKept(p) {
			state = "stopped, pods run"
		}
		if _, err := os.Stat(autostart.RefusedFile(daemon.Home(), p.Name)); err == nil {
			state += ", last up failed"
		}
		return []string{p.Name, state, "", "", "", "", p.Data}, "", nil
	}
	state := "running"
	if slices.Contains(s.Parts, "apiserver") {
		refusal, err := refusedSchedulerConfig(ctx, p, s)
		if refusal != "" {
			state += ", scheduler config refused"
		}
		if note = refusal; err != nil {
			note = "the scheduler's events cannot be read: " + err.Error()
		}
	}
	age := env.Now().Sub(s.Started).Round(time.Second).String()
	return []string{p.Name, state, fmt.Sprint(s.PID), s.Address, strings.Join(s.Parts, ","), age, p.Data}, note, nil
}

// statusTimeout is how long status waits for the API server of each cluster.
const statusTimeout = 5 * time.Second

// refusedSchedulerConfig returns why the scheduler of a running cluster has refused the last change of its config, or "".
func refusedSchedulerConfig(ctx context.Context, p daemon.Paths, s daemon.State) (string, error) {
	cfg := &rest.Config{Host: "http://localhost", Timeout: statusTimeout}
	cfg.Wrap(overSocket(p.Socket))
	c, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	// The Events of a cluster-scoped object are in the namespace default.
	events, err := c.Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Namespace,involvedObject.name=" + metav1.NamespaceSystem,
	})
	if err != nil {
		return "", err
	}
	var since time.Time
	if slices.Contains(s.Parts, "scheduler") {
		since = s.Started
	}
	return lastRefusal(events.Items, since)
}

// lastRefusal returns the message of the last Event about the scheduler's config if that is a refusal, else "". Events before
// since are left out: a scheduler that has started since then has read its config again. Their times are whole seconds.
func lastRefusal(events []corev1.Event, since time.Time) (string, error) {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason != "SchedulerConfigInvalid" && e.Reason != "SchedulerConfigApplied" || e.LastTimestamp.Time.Before(since.Truncate(time.Second)) {
			continue
		}
		if last != nil {
			order, err := resourceversion.CompareResourceVersion(e.ResourceVersion, last.ResourceVersion)
			if err != nil {
				return "", err
			}
			if order < 0 {
				continue
			}
		}
		last = e
	}
	if last == nil || last.Reason != "SchedulerConfigInvalid" {
		return "", nil
	}
	return last.Message, nil
}
