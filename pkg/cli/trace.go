package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

func newTrace(env *Env) *cobra.Command {
	var first, stages bool
	var output string
	cmd := &cobra.Command{
		Use:   "trace TYPE/NAME",
		Short: "Show how an object came to what it is: each step, who took it, what woke them, and how long it took",
		Long: `Show the chain of writes from the last request that changed an object to the containers that run because of it. Each line
is one committed write: its revision, the time since the request, who wrote, what was written, which earlier write woke the
writer, and how long the write itself took. The same records, one by one: minikctl get traces.minikctl.dev`,
		Example: `  minikctl trace deployment/web
  minikctl trace pod/web-5c9f7d-x2x7k --stages`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			uid, namespace, err := resolve(env, args)
			if err != nil {
				return err
			}
			spans, err := spansOf(cmd.Context(), env, namespace)
			if err != nil {
				return err
			}
			steps := chain(spans, string(uid), first)
			if len(steps) == 0 {
				return fmt.Errorf("nothing is recorded of %s any more", strings.Join(args, "/"))
			}
			if output == "json" {
				e := json.NewEncoder(env.Out)
				e.SetIndent("", "  ")
				return e.Encode(steps)
			}
			return printSteps(env.Out, steps, stages)
		},
	}
	cmd.Flags().BoolVar(&first, "first", false, "begin at the object's creation rather than at the last request that changed it")
	cmd.Flags().BoolVar(&stages, "stages", false, "also show the stages of each step")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for a table")
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
	Depth int           `json:"depth"` // how many steps lie between the request and this one
	Since time.Duration `json:"since"` // from the request to this step
	Woken uint64        `json:"wokenBy,omitempty"`
}

// chain returns the writes that followed from a request on the object with the given uid, in order. The request is the
// last write to the object that no other write caused, or with first, its creation.
func chain(spans []trace.Span, uid string, first bool) []step {
	root := -1
	for i, s := range spans {
		if s.UID == uid && len(s.Causes) == 0 && (root < 0 || !first) {
			root = i
		}
	}
	if root < 0 {
		for i, s := range spans {
			if s.UID == uid {
				root = i
				break
			}
		}
	}
	if root < 0 {
		return nil
	}
	begin := spans[root]
	family := map[string]bool{uid: true}
	depth := map[uint64]int{begin.Revision: 0}
	steps := []step{{Span: begin}}
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
		steps = append(steps, step{Span: s, Depth: depth[s.Revision], Since: s.Time.Sub(begin.Time), Woken: woken})
	}
	return steps
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

func printSteps(w io.Writer, steps []step, stages bool) error {
	t := newTable(w, "STEP", "TIME", "WHO", "DID", "WOKEN BY", "TOOK")
	number := map[uint64]int{}
	for i, s := range steps {
		number[s.Revision] = i + 1
		woken := "request"
		if s.Woken != 0 {
			woken = fmt.Sprintf("step %d", number[s.Woken])
		}
		did := fmt.Sprintf("%s %s/%s", s.Verb, kindOf(s.Span), s.Name)
		if s.Note != "" {
			did += ": " + s.Note
		}
		if err := t.Append([]string{fmt.Sprint(i + 1), "+" + short(s.Since), who(s.Span), did, woken, short(took(s.Stages))}); err != nil {
			return err
		}
		if stages {
			for _, g := range s.Stages {
				if err := t.Append([]string{"", "", "", "  " + g.Name, "", short(g.Took)}); err != nil {
					return err
				}
			}
		}
	}
	return t.Render()
}

func kindOf(s trace.Span) string {
	if s.Sub != "" {
		return s.Resource + "/" + s.Sub
	}
	return s.Resource
}

func who(s trace.Span) string {
	if s.Agent != "" {
		return s.Agent
	}
	return s.Actor
}

// took is the time from the beginning of the first stage to the end of the last.
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
