package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// killsPerBatch is the number of kills after which the clients continue with new objects: the time of the search for a linear order
// grows faster than the length of an object's history.
const killsPerBatch = 20

// request is an operation on one object. Each value is written once, so it identifies the resourceVersion, too.
type request struct {
	verb   string // the HTTP method
	name   string
	value  string // that is written
	expect string // the value that must be there; "": any
}

// result is the response to a request.
type result struct {
	code  int // 0: unknown
	value string
}

// history holds all operations of the clients.
type history struct {
	batch   atomic.Int64 // part of the objects' names
	refused atomic.Int64 // responses without information about the object

	mu         sync.Mutex
	operations []porcupine.Operation
	written    []change // with results that are known, in no order
}

// change is one change of an object; value "": a deletion.
type change struct {
	revision uint64
	name     string
	value    string
}

func newObject(name, value, resourceVersion string) object {
	return object{Kind: "ConfigMap", Metadata: metadata{name, resourceVersion}, Data: map[string]string{"value": value}}
}

// write makes one request after the other.
func (c *cluster) write(ctx context.Context, client int, h *history) {
	hc := c.client()
	defer hc.CloseIdleConnections()
	rng := rand.New(rand.NewPCG(uint64(client), uint64(time.Now().UnixNano())))
	known := map[string]object{} // the last that this client has seen of each object
	for n := 0; ctx.Err() == nil; n++ {
		up := c.ready()
		select {
		case <-up:
		case <-ctx.Done():
			return
		}
		name := fmt.Sprintf("b%d-%d", h.batch.Load(), rng.IntN(3))
		r, body := plan(rng, name, fmt.Sprintf("%d-%d", client, n), known[name])
		called := c.now()
		path := "/" + name
		if r.verb == http.MethodPost {
			path = ""
		}
		code, got, err := do(context.WithoutCancel(ctx), hc, r.verb, path, body)
		if err != nil {
			code = 0
			if c.ready() == up {
				c.t.Errorf("%s %s: %v, although the server was not killed", r.verb, name, err)
			}
			<-c.ready() // until then the killed server may have carried it out
		}
		if code >= 500 || code == http.StatusTooManyRequests {
			h.refused.Add(1)
			code = 0
		}
		h.add(client, r, result{code, got.Data["value"]}, got, called, c.now())
		if got.Kind == "ConfigMap" {
			known[name] = got
		}
	}
}

// plan returns a random request, and its body.
func plan(rng *rand.Rand, name, value string, known object) (request, any) {
	at := known.Metadata.ResourceVersion
	switch n := rng.IntN(10); {
	case n < 3:
		return request{http.MethodGet, name, "", ""}, nil
	case n < 5 || at == "":
		return request{http.MethodPost, name, value, ""}, newObject(name, value, "")
	case n < 8:
		return request{http.MethodPut, name, value, known.Data["value"]}, newObject(name, value, at)
	case n < 9:
		return request{http.MethodDelete, name, "", known.Data["value"]}, map[string]any{"preconditions": map[string]string{"resourceVersion": at}}
	}
	return request{http.MethodDelete, name, "", ""}, nil
}

func (h *history) add(client int, r request, out result, got object, called, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: r, Call: called, Output: out, Return: returned})
	if got.Kind == "ConfigMap" && (r.verb == http.MethodPost || r.verb == http.MethodPut) {
		h.written = append(h.written, change{revision(got), r.name, r.value})
	}
}

func (h *history) acknowledged() []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.written
}

func (h *history) unknown() (n int) {
	for _, op := range h.operations {
		if op.Output.(result).code == 0 {
			n++
		}
	}
	return n
}

// register is the model: an object is a register of its value; "": absent.
var register = porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		have, in, out := state.(string), input.(request), output.(result)
		next, code := in.apply(have)
		switch {
		case out.code == 0: // carried out or not
			return []any{have, next}
		case have == "" && in.expect != "" && out.code == http.StatusConflict: // deleted meanwhile: 404 or 409
			return []any{have}
		case out.code != code || in.verb == http.MethodGet && code == http.StatusOK && out.value != have:
			return nil
		}
		return []any{next}
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%v → %v", input, output)
	},
}

// apply returns what the object holds after the request, and the answer's code.
func (r request) apply(have string) (next string, code int) {
	switch {
	case r.verb == http.MethodPost && have == "":
		return r.value, http.StatusCreated
	case r.verb == http.MethodPost:
		return have, http.StatusConflict
	case have == "":
		return have, http.StatusNotFound
	case r.expect != "" && r.expect != have:
		return have, http.StatusConflict
	case r.verb == http.MethodPut:
		return r.value, http.StatusOK
	case r.verb == http.MethodDelete:
		return "", http.StatusOK
	}
	return have, http.StatusOK
}

// check searches a linear order for the operations of each object.
func (h *history) check(t *testing.T) {
	byName := map[string][]porcupine.Operation{}
	for _, op := range h.operations {
		if in, out := op.Input.(request), op.Output.(result); out.code != 0 || in.verb != http.MethodGet {
			byName[in.name] = append(byName[in.name], op)
		}
	}
	for name, ops := range byName {
		result, info := porcupine.CheckOperationsVerbose(register.ToModel(), ops, 5*time.Minute)
		if result == porcupine.Ok {
			continue
		}
		longest := 0
		for _, partition := range info.PartialLinearizationsOperations() {
			for _, p := range partition {
				longest = max(longest, len(p))
			}
		}
		t.Errorf("%s: %v: %d of %d operations have a linear order\n%s", name, result, longest, len(ops), around(ops, longest))
	}
}

// around describes the operations around the n-th one.
func around(ops []porcupine.Operation, n int) string {
	var b strings.Builder
	for _, op := range ops[max(0, n-10):min(len(ops), n+10)] {
		fmt.Fprintf(&b, "client %d, %d to %d: %v → %v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
	}
	return b.String()
}
