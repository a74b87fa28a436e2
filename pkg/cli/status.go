package cli

import (
	"context"
	"encoding/json"
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
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func newStatus(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the clusters of this user, running or not",
		Args:  arguments("", 0, 0),
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
				row, more, err := statusRow(cmd.Context(), env, p)
				if err != nil {
					return err
				}
				for _, note := range more {
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

// statusRow returns a cluster's row of the table, and the notes to print below the table.
func statusRow(ctx context.Context, env *Env, p daemon.Paths) (row, notes []string, err error) {
	s, err := daemon.ReadState(p)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	if err != nil || !daemon.Alive(p) {
		state := "stopped"
		if daemon.PodsKept(p) {
			state = "stopped, pods run"
		}
		if _, failed := autostart.FailedUp(daemon.Home(), p.Name); failed {
			state += ", last up failed"
		}
		return []string{p.Name, state, "", "", "", "", p.Data}, nil, nil
	}
	state := "running"
	if s.Processes {
		notes = append(notes, accessNote)
	}
	if slices.Contains(s.Parts, "apiserver") {
		conditions, more := serverStatus(ctx, p, s)
		state, notes = state+conditions, append(notes, more...)
	}
	age := env.Now().Sub(s.Started).Round(time.Second).String()
	return []string{p.Name, state, fmt.Sprint(s.PID), s.Address, strings.Join(s.Parts, ","), age, p.Data}, notes, nil
}

// serverStatus returns what the API server of a running cluster reports: what the state of the cluster's row ends with, and notes.
func serverStatus(ctx context.Context, p daemon.Paths, s daemon.State) (conditions string, notes []string) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	refusal, err := refusedSchedulerConfig(ctx, p, s)
	if ctx.Err() != nil {
		return ", does not respond", []string{fmt.Sprintf("the API server has not responded for %s", statusTimeout)}
	}
	if refusal != "" {
		conditions += ", scheduler config refused"
		notes = append(notes, refusal)
	}
	if err != nil {
		notes = append(notes, "the scheduler's events cannot be read: "+err.Error())
	}
	unhealthy, err := unhealthyParts(ctx, p, s)
	if err != nil {
		notes = append(notes, "the components' statuses cannot be read: "+err.Error())
	}
	for _, part := range unhealthy {
		conditions += ", " + part.Name + " unhealthy"
		notes = append(notes, part.Name+": "+part.Conditions[0].Message)
	}
	corrupt, err := corruptObjects(ctx, p)
	if err != nil {
		notes = append(notes, "the corrupt objects cannot be read: "+err.Error())
	}
	if len(corrupt) > 0 {
		conditions += ", corrupt objects"
		notes = append(notes, corruptNotes(corrupt)...)
	}
	return conditions, notes
}

// accessNote is the note of status about a cluster whose containers are processes of this machine.
const accessNote = "containers run without isolation: a user who may create pods has the rights of an administrator (docs/security.md)"

// statusTimeout is how long status waits for the API server of each cluster, for all of its requests.
const statusTimeout = 5 * time.Second

// statusClient returns a client of a running cluster's API server.
func statusClient(p daemon.Paths) (*typedcorev1.CoreV1Client, error) {
	cfg := &rest.Config{
		Host:           "http://localhost",
		WarningHandler: rest.NoWarnings{}, // ComponentStatuses are deprecated
		QPS:            -1,                // at the deadline, a rate limiter would fail with an error of its own
	}
	cfg.Wrap(overSocket(p.Socket))
	return typedcorev1.NewForConfig(cfg)
}

// partOf maps the names of ComponentStatuses to parts of the daemon.
var partOf = map[string]string{"etcd-0": "apiserver", "scheduler": "scheduler", "controller-manager": "controllers"}

// unhealthyParts returns the ComponentStatuses of the unhealthy parts that a running cluster's process should run. etcd-0 is the store: it is
// unhealthy while it takes no writes.
func unhealthyParts(ctx context.Context, p daemon.Paths, s daemon.State) ([]corev1.ComponentStatus, error) {
	c, err := statusClient(p)
	if err != nil {
		return nil, err
	}
	list, err := c.ComponentStatuses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(status corev1.ComponentStatus) bool {
		return !slices.Contains(s.Parts, partOf[status.Name]) || status.Conditions[0].Status == corev1.ConditionTrue
	}), nil
}

// corruptObjects returns the stored values that a running cluster's API server cannot decode.
func corruptObjects(ctx context.Context, p daemon.Paths) ([]minikctl.CorruptObject, error) {
	c, err := statusClient(p)
	if err != nil {
		return nil, err
	}
	b, err := c.RESTClient().Get().AbsPath("apis", minikctl.CorruptObjects.Group, minikctl.CorruptObjects.Version, minikctl.CorruptObjects.Resource).
		SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	list := &minikctl.CorruptObjectList{}
	err = json.Unmarshal(b, list)
	return list.Items, err
}

// maxCorruptNotes bounds the corrupt objects that status names.
const maxCorruptNotes = 10

// corruptNotes names the corrupt objects, and how to delete them.
func corruptNotes(corrupt []minikctl.CorruptObject) []string {
	out := []string{fmt.Sprintf("%d objects in the store cannot be decoded and are not served (minikctl get corruptobjects.minikctl.dev). "+
		"Delete one with: minikctl delete --raw 'PATH?ignoreStoreReadErrorWithClusterBreakingPotential=true'", len(corrupt))}
	for _, c := range corrupt[:min(len(corrupt), maxCorruptNotes)] {
		out = append(out, fmt.Sprintf("  %s %s: %s", c.Resource, strings.TrimPrefix(c.Namespace+"/"+c.Object, "/"), c.Message))
	}
	return out
}

// refusedSchedulerConfig returns why the scheduler of a running cluster has refused the last change of its config, or "".
func refusedSchedulerConfig(ctx context.Context, p daemon.Paths, s daemon.State) (string, error) {
	c, err := statusClient(p)
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
