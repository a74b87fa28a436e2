package stage

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// step is one thing that a Stage does: exactly one field is set.
type step struct {
	event      *kwok.Event
	finalizers *kwok.Finalizers
	patch      *patch
	delete     bool
}

// patch is a patch of the object with a rendered content.
type patch struct {
	subresource, root string
	kind              types.PatchType
	content           *content
}

// patchTypes are the types of a Patch; "" is the default for pods and nodes.
var patchTypes = map[string]types.PatchType{
	"": types.StrategicMergePatchType, "strategic": types.StrategicMergePatchType, "merge": types.MergePatchType, "json": types.JSONPatchType,
}

// compileSteps returns what a Stage does, in order. The older field next has no effect beside steps.
func compileSteps(s *kwok.StageSpec) ([]step, field.ErrorList) {
	var c stepCompiler
	spec := field.NewPath("spec")
	if len(s.Steps) > 0 {
		for i := range s.Steps {
			c.addStep(&s.Steps[i], spec.Child("steps").Index(i))
		}
		return c.steps, c.errs
	}
	n := s.Next
	if n == nil {
		return nil, field.ErrorList{field.Required(spec.Child("steps"), "what the Stage does")}
	}
	path := spec.Child("next")
	c.addStep(&kwok.Step{Event: n.Event, Finalizers: n.Finalizers}, path)
	for i := range n.Patches {
		c.addPatch(&n.Patches[i], path.Child("patches").Index(i), "template")
	}
	if n.StatusTemplate != "" && len(n.Patches) == 0 {
		p := kwok.Patch{Subresource: "status", Root: "status", Template: n.StatusTemplate, Impersonation: n.StatusPatchAs}
		if n.StatusSubresource != nil {
			p.Subresource = *n.StatusSubresource
		}
		c.addPatch(&p, path, "statusTemplate")
	}
	if n.Delete {
		c.steps = append(c.steps, step{delete: true})
	}
	return c.steps, c.errs
}

type stepCompiler struct {
	steps []step
	errs  field.ErrorList
}

// addStep adds the parts of a step in their order. Nothing follows a delete but the events of later steps.
func (c *stepCompiler) addStep(s *kwok.Step, path *field.Path) {
	if e := s.Event; e != nil {
		if e.Type != "" && e.Type != "Normal" && e.Type != "Warning" {
			c.errs = append(c.errs, field.NotSupported(path.Child("event", "type"), e.Type, []string{"Normal", "Warning"}))
		}
		c.steps = append(c.steps, step{event: e})
	}
	if slices.ContainsFunc(c.steps, func(s step) bool { return s.delete }) {
		return
	}
	if s.Finalizers != nil {
		c.steps = append(c.steps, step{finalizers: s.Finalizers})
	}
	if s.Delete {
		c.steps = append(c.steps, step{delete: true})
		return
	}
	if s.Patch != nil {
		c.addPatch(s.Patch, path.Child("patch"), "template")
	}
	if s.Apply != nil {
		c.errs = append(c.errs, field.Forbidden(path.Child("apply"), "Stages of this cluster change only the object that they select"))
	}
}

func (c *stepCompiler) addPatch(p *kwok.Patch, path *field.Path, name string) {
	kind, ok := patchTypes[p.Type]
	if !ok {
		c.errs = append(c.errs, field.NotSupported(path.Child("type"), p.Type, []string{"json", "merge", "strategic"}))
	}
	if p.Impersonation != nil {
		c.errs = append(c.errs, field.Forbidden(path.Child("impersonation"), "is not available for pods and nodes"))
	}
	text, err := newContent(p.Template)
	if err != nil {
		c.errs = append(c.errs, field.Invalid(path.Child(name), shortText(p.Template), err.Error()))
		return
	}
	c.steps = append(c.steps, step{patch: &patch{subresource: p.Subresource, root: p.Root, kind: kind, content: text}})
}

// shortText is the beginning of a template, for errors.
func shortText(text string) string {
	const longest = 40
	if r := []rune(text); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return text
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// make renders the patch for an object. It applies only to the object with the same UID.
func (p *patch) make(s *subject, env Env) (client.Patch, error) {
	rendered, err := p.content.render(s, env)
	if err != nil {
		return client.Patch{}, err
	}
	if p.kind == types.JSONPatchType {
		var ops []operation
		if err := json.Unmarshal(rendered, &ops); err != nil {
			return client.Patch{}, fmt.Errorf("the result is no JSON patch: %w", err)
		}
		if p.root != "" {
			for i := range ops {
				ops[i].Path = "/" + p.root + ops[i].Path
			}
		}
		return jsonPatch(s, ops)
	}
	var fields map[string]json.RawMessage
	if p.root != "" {
		fields = map[string]json.RawMessage{p.root: rendered}
	} else if err := json.Unmarshal(rendered, &fields); err != nil {
		return client.Patch{}, fmt.Errorf("the result is no object: %w", err)
	}
	meta := map[string]any{}
	if m, ok := fields["metadata"]; ok {
		if err := json.Unmarshal(m, &meta); err != nil {
			return client.Patch{}, fmt.Errorf("metadata is no object: %w", err)
		}
	}
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"] = s.object.GetUID()
	all := map[string]any{}
	for k, v := range fields {
		all[k] = v
	}
	all["metadata"] = meta
	data, err := json.Marshal(all)
	return client.Patch{Type: p.kind, Data: data}, err
}

// jsonPatch returns a JSON patch that applies only to the object with the same UID.
func jsonPatch(s *subject, ops []operation) (client.Patch, error) {
	uid, err := json.Marshal(s.object.GetUID())
	if err != nil {
		return client.Patch{}, err
	}
	data, err := json.Marshal(append([]operation{{Op: "test", Path: "/metadata/uid", Value: uid}}, ops...))
	return client.Patch{Type: types.JSONPatchType, Data: data}, err
}

// changeFinalizers returns the finalizers of an object after a change, and whether they differ.
func changeFinalizers(have []string, f *kwok.Finalizers) ([]string, bool) {
	next := slices.Clone(have)
	if f.Empty {
		next = nil
	}
	for _, r := range f.Remove {
		next = slices.DeleteFunc(next, func(s string) bool { return s == r.Value })
	}
	for _, a := range f.Add {
		if !slices.Contains(next, a.Value) {
			next = append(next, a.Value)
		}
	}
	return next, !slices.Equal(have, next)
}

// finalizerPatch returns the patch to other finalizers. It fails if the object's have changed meanwhile.
func finalizerPatch(s *subject, next []string) (client.Patch, error) {
	had, err := json.Marshal(s.object.GetFinalizers())
	if err != nil {
		return client.Patch{}, err
	}
	value, err := json.Marshal(next)
	if err != nil {
		return client.Patch{}, err
	}
	ops := []operation{{Op: "add", Path: "/metadata/finalizers", Value: value}}
	if len(s.object.GetFinalizers()) > 0 {
		ops = []operation{{Op: "test", Path: "/metadata/finalizers", Value: had}, {Op: "replace", Path: "/metadata/finalizers", Value: value}}
	}
	return jsonPatch(s, ops)
}
