package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

func newTrace(env *Env) *cobra.Command {
	var first, stages bool
	var output string
	cmd := &cobra.Command{
		Use:   "trace TYPE/NAME",
		Short: "Show each write that led to an object's present state, with its writer, cause and duration",
		Long: `Show the writes that followed from the last request that changed an object, down to the status of its containers.
Each row is one committed write: the time of its commit since the first row, the component that wrote it (a kubelet
with its node), what it wrote, the earlier write that caused it, and how long it took. An object that a controller
has written begins with that controller's write. The same records: minikctl get traces.minikctl.dev`,
		Example: `  minikctl trace deployment/web
  minikctl trace pod/web-5c9f7d-x2x7k --stages`,
		Args:              oneObject,
		ValidArgsFunction: completion.ResourceTypeAndNameCompletionFunc(env.Factory),
		RunE: func(cmd *cobra.Command, args []string) error {
			uid, namespace, err := resolve(env, args)
			if err != nil {
				return err
			}
			spans, err := spansOf(cmd.Context(), env, namespace)
			if err != nil {
				return err
			}
			t := chain(spans, string(uid), first)
			if len(t.Steps) == 0 {
				return fmt.Errorf("no write of %s is recorded; the trace log keeps only the newest writes", strings.Join(args, "/"))
			}
			if output != "" {
				return printAs(env, output, t.Steps)
			}
			return t.print(env.Out, stages, widthOf(env.Out))
		},
	}
	cmd.Flags().BoolVar(&first, "first", false, "begin at the object's creation instead of the last request that changed it")
	cmd.Flags().BoolVar(&stages, "stages", false, "also show the stages of each write")
	addOutput(cmd, &output, "a table", "json", "yaml")
	return cmd
}

// resolve finds the one object that the arguments name.
func resolve(env *Env, args []string) (types.UID, string, error) {
	namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", "", err
	}
	info, err := env.Factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, args...).SingleResourceType().Do().Infos()
	if err != nil {
		return "", "", err
	}
	if len(info) != 1 {
		return "", "", fmt.Errorf("name one object, as TYPE/NAME")
	}
	m, err := meta.Accessor(info[0].Object)
	if err != nil {
		return "", "", err
	}
	return m.GetUID(), info[0].Namespace, nil
}

func spansOf(ctx context.Context, env *Env, namespace string) ([]trace.Span, error) {
	list := &minikctl.TraceList{}
	if err := getVirtual(ctx, env, namespace, "traces", "", list); err != nil {
		return nil, err
	}
	spans := make([]trace.Span, len(list.Items))
	for i := range list.Items {
		spans[i] = list.Items[i].Span
	}
	return spans, nil
}

// oneObject checks that arguments name an object, as TYPE/NAME or TYPE NAME.
func oneObject(cmd *cobra.Command, args []string) error {
	if len(args) == 1 || len(args) == 2 {
		return nil
	}
	return cmdutil.UsageErrorf(cmd, "one object is needed, as TYPE/NAME, got %d arguments", len(args))
}

// getVirtual reads a list of minikctl's own resources.
func getVirtual(ctx context.Context, env *Env, namespace, resource, selector string, into any) error {
	cfg, err := env.Factory.ToRESTConfig()
	if err != nil {
		return err
	}
	c, err := cmdutil.NewFactory(env.Target).KubernetesClientSet()
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	path := []string{"apis", minikctl.GroupVersion.Group, minikctl.GroupVersion.Version}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	req := c.CoreV1().RESTClient().Get().AbsPath(append(path, resource)...)
	if selector != "" {
		req = req.Param("labelSelector", selector)
	}
	b, err := req.SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// step is a span with its place in the chain.
type step struct {
	trace.Span
	Depth int           `json:"depth"` // the number of writes between the first step and this one
	Since time.Duration `json:"since"` // from the commit of the first step to the commit of this one
	Cause uint64        `json:"wokenBy,omitempty"`
}

// tracing is the chain of writes that print shows.
type tracing struct {
	Steps []step
	cause *trace.Span // the write that caused the first step; nil for a request, and if the log has dropped it
	// dropped is true if the log no longer has writes that came before the first step.
	dropped bool
}

// chain returns the writes that followed from a request on the object with the given uid, in the order of their commits.
// The request is the last write to the object that no other write caused, or with first, the object's creation. Without a
// request in the log the chain begins at the object's first write.
func chain(spans []trace.Span, uid string, first bool) tracing {
	// The log has writes that were committed together in any order.
	spans = slices.SortedFunc(slices.Values(spans), func(a, b trace.Span) int { return cmp.Compare(a.Revision, b.Revision) })
	root := -1
	for i, s := range spans {
		if s.UID == uid && len(s.Causes) == 0 && (root < 0 || !first) {
			root = i
		}
	}
	if root < 0 {
		root = slices.IndexFunc(spans, func(s trace.Span) bool { return s.UID == uid })
	}
	if root < 0 {
		return tracing{}
	}
	begin := spans[root]
	out := tracing{Steps: []step{{Span: begin}}}
	if len(begin.Causes) > 0 {
		newest := slices.Max(begin.Causes)
		if i := slices.IndexFunc(spans, func(s trace.Span) bool { return s.Revision == newest }); i >= 0 {
			out.cause = &spans[i]
		}
		out.dropped = out.cause == nil || begin.Verb != "create" || begin.Sub != ""
	}
	family := map[string]bool{uid: true}
	depth := map[uint64]int{begin.Revision: 0}
	since := time.Duration(0)
	for _, s := range spans[root+1:] {
		if !family[s.UID] && !family[s.Owner] {
			continue
		}
		woken, ok := latest(s.Causes, depth)
		if !ok {
			continue
		}
		family[s.UID] = true
		depth[s.Revision] = depth[woken] + 1
		since = max(since, committed(s).Sub(committed(begin))) // commits have an order, the clocks of their stages are read apart
		out.Steps = append(out.Steps, step{Span: s, Depth: depth[s.Revision], Since: since, Cause: woken})
	}
	return out
}

// committed returns when a write was committed.
func committed(s trace.Span) time.Time {
	for _, g := range s.Stages {
		if g.Name == "commit" {
			return g.Start.Add(g.Took)
		}
	}
	return s.Time
}

// latest returns the newest cause that belongs to the chain.
func latest(causes []uint64, in map[uint64]int) (uint64, bool) {
	var best uint64
	for _, c := range causes {
		if _, ok := in[c]; ok && c > best {
			best = c
		}
	}
	return best, best != 0
}

// print writes the chain as a table of at most width columns; 0 means any width.
func (t tracing) print(w io.Writer, stages bool, width int) error {
	table := newTable(w, "STEP", "TIME", "CAUSE", "TOOK", "WRITER", "WRITE")
	number := map[uint64]int{}
	var rows [][]string
	for i, s := range t.Steps {
		number[s.Revision] = i + 1
		cause := fmt.Sprintf("step %d", number[s.Cause])
		if i == 0 {
			cause = t.firstCause()
		}
		wrote := fmt.Sprintf("%s %s/%s", s.Verb, kindOf(s.Span), s.Name)
		if s.Note != "" {
			wrote += ": " + s.Note
		}
		rows = append(rows, []string{fmt.Sprint(i + 1), "+" + short(s.Since), cause, short(took(s.Stages)), writer(s.Span), wrote})
		if stages {
			for _, g := range s.Stages {
				rows = append(rows, []string{"", "", "", short(g.Took), "", "  " + g.Name})
			}
		}
	}
	for _, row := range fit(rows, []string{"STEP", "TIME", "CAUSE", "TOOK", "WRITER", "WRITE"}, width) {
		if err := table.Append(row); err != nil {
			return err
		}
	}
	if err := table.Render(); err != nil {
		return err
	}
	if c := t.cause; c != nil {
		fmt.Fprintf(w, "Step 1 was caused by: %s, %s %s/%s\n", writer(*c), c.Verb, kindOf(*c), c.Name)
	}
	if t.dropped {
		fmt.Fprintln(w, "The trace log, which keeps the newest writes, has dropped earlier writes of this chain.")
	}
	return nil
}

// firstCause names what caused the first step.
func (t tracing) firstCause() string {
	switch {
	case len(t.Steps[0].Causes) == 0:
		return "request"
	case t.cause == nil:
		return "dropped"
	}
	return "below"
}

func kindOf(s trace.Span) string {
	if s.Sub != "" {
		return s.Resource + "/" + s.Sub
	}
	return s.Resource
}

// writer names the component or program that made a write; a kubelet with its node.
func writer(s trace.Span) string {
	name := s.Agent
	if name == "" {
		name = s.Actor
	}
	if node, ok := strings.CutPrefix(s.Actor, "system:node:"); ok {
		name += " " + node
	}
	return name
}

// took returns the time from the beginning of the first stage to the end of the last.
func took(stages []trace.Stage) time.Duration {
	var first, last time.Time
	for _, s := range stages {
		if first.IsZero() || s.Start.Before(first) {
			first = s.Start
		}
		if end := s.Start.Add(s.Took); end.After(last) {
			last = end
		}
	}
	return last.Sub(first)
}

// short prints a duration with three digits at most.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
