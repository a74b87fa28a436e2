package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"

	"sigs.k8s.io/yaml"
)

const (
	maxSteps  = 200_000 // iterations and function calls of one rendering
	maxOutput = 1 << 20 // bytes of one rendering
)

var (
	errTooLong = errors.New("the template takes too many steps")
	errTooBig  = errors.New("the result is larger than 1 MiB")
)

// content is a compiled template that renders YAML.
type content struct{ template *template.Template }

// tick is the function that each iteration and each template calls. It ends a rendering that takes too long.
const tick = "_step"

func newContent(text string) (*content, error) {
	t, err := template.New("template").Funcs(functionsOf(&rendering{})).Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	for _, one := range t.Templates() {
		if one.Tree != nil && one.Root != nil {
			count(one.Root)
			one.Root.Nodes = append([]parse.Node{tickNode()}, one.Root.Nodes...)
		}
	}
	return &content{t}, nil
}

// tickNode returns the node of a call of tick.
func tickNode() parse.Node {
	t := template.Must(template.New("").Funcs(template.FuncMap{tick: func() string { return "" }}).Parse("{{" + tick + "}}"))
	return t.Root.Nodes[0]
}

// count adds a call of tick to each iteration below a node.
func count(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			count(child)
		}
	case *parse.IfNode:
		count(n.List)
		count(n.ElseList)
	case *parse.WithNode:
		count(n.List)
		count(n.ElseList)
	case *parse.RangeNode:
		count(n.List)
		count(n.ElseList)
		n.List.Nodes = append([]parse.Node{tickNode()}, n.List.Nodes...)
	}
}

// rendering is one execution of a template.
type rendering struct {
	Env
	steps int
	out   bytes.Buffer
}

// step counts an iteration or a call.
func (r *rendering) step() (string, error) {
	if r.steps++; r.steps > maxSteps {
		return "", errTooLong
	}
	return "", nil
}

// Write implements io.Writer.
func (r *rendering) Write(p []byte) (int, error) {
	if r.out.Len()+len(p) > maxOutput {
		return 0, errTooBig
	}
	return r.out.Write(p)
}

// render executes the template with an object and returns its YAML as JSON.
func (c *content) render(s *subject, env Env) ([]byte, error) {
	b, err := s.encode()
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var data any
	if err := d.Decode(&data); err != nil {
		return nil, err
	}
	t, err := c.template.Clone()
	if err != nil {
		return nil, err
	}
	r := &rendering{Env: env}
	if err := t.Funcs(functionsOf(r)).Execute(r, data); err != nil {
		return nil, shortened(err)
	}
	out, err := yaml.YAMLToJSON(r.out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the result is no YAML: %w", err)
	}
	return out, nil
}

// shortened returns the cause of an error alone if that is a limit of renderings, and otherwise bounds the text of an error, which may quote the object.
func shortened(err error) error {
	for _, limit := range []error{errTooLong, errTooBig} {
		if errors.Is(err, limit) {
			return limit
		}
	}
	const longest = 500
	if text := err.Error(); len(text) > longest {
		return errors.New(strings.ToValidUTF8(text[:longest], "") + " …")
	}
	return err
}
