package apiserver_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/internal/golden"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

var (
	update = flag.Bool("update", false, "write the counts of equal recorded responses")
	show   = flag.String("show", "", "show what differs in the recorded responses whose name contains this")
)

// replay sends recorded requests to a server and counts the equal responses.
type replay struct {
	*testing.T
	env    *apiservertest.Env
	client *http.Client
	made   map[string]bool   // namespaces
	saved  map[string]string // values that later steps of a flow use
	equal  map[string]int
	of     map[string]int
}

// slowClock shows a thousandth of the time that passes; its timers run in real time. The entries of managedFields are ordered by the
// second of their last change, and the recorded steps of a flow took less than one.
type slowClock struct {
	clock.RealClock
	start time.Time
}

func (c *slowClock) Now() time.Time { return c.start.Add(time.Since(c.start) / 1000) }

func (c *slowClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestGolden compares the server's responses with the recorded ones of a real API server. It fails when fewer are equal
// than before.
func TestGolden(t *testing.T) { golden.Run(t, testGolden) }

func testGolden(t *testing.T, recordings golden.Recordings) {
	dir := recordings.Dir
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Clock = &slowClock{start: time.Now().Truncate(time.Second)} })
	conf := rest.AnonymousClientConfig(e.AdminConfig)
	conf.UserAgent = "Python-urllib/3.11"
	hc, err := rest.HTTPClientFor(conf)
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{T: t, env: e, client: hc, made: map[string]bool{}, equal: map[string]int{}, of: map[string]int{}}
	for _, row := range builtin.Resources() {
		r.creates(filepath.Join(dir, "create", row.Names.Kind+".jsonl"), row.Names.Kind)
	}
	flows, err := filepath.Glob(filepath.Join(dir, "flows", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flows {
		r.flow(f)
	}
	r.compareCounts(recordings.Counts())
}

// compareCounts fails if fewer responses are equal than in the file counts, whose lines are NAME EQUAL OF.
func (r *replay) compareCounts(counts string) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.of)) {
		fmt.Fprintf(&text, "%s %d %d\n", name, r.equal[name], r.of[name])
	}
	if *update {
		if err := os.WriteFile(counts, []byte(text.String()), 0o644); err != nil {
			r.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(counts)
	if err != nil {
		r.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var name string
		var equal, of int
		if _, err := fmt.Sscan(line, &name, &equal, &of); err != nil {
			r.Fatal(err)
		}
		if r.equal[name] < equal {
			r.Errorf("%s: %d of %d responses are equal to the recorded ones, there were %d (-show %s shows more)", name, r.equal[name], r.of[name], equal, name)
		}
	}
}

// recorded is a recorded request with its response.
type recorded struct {
	Name, Method, Path, Query, Accept, ContentTypeSent, As, Impersonate, Save, Note string

	Body, Request, Response, Table any
	Status                         int
	Warnings                       []string
}

func (r *replay) note(group, name string, want, got any) {
	r.of[group]++
	if reflect.DeepEqual(want, got) {
		r.equal[group]++
		return
	}
	if *show != "" && strings.Contains(group+" "+name, *show) {
		w, _ := json.Marshal(want) // encoded from decoded JSON
		g, _ := json.Marshal(got)
		r.Logf("%s %s\nwant %s\ngot  %s", group, name, w, g)
	}
}

func (r *replay) creates(file, kind string) {
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c recorded
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			r.Fatal(err)
		}
		r.create("create/"+kind, c)
	}
	if err := lines.Err(); err != nil {
		r.Fatal(err)
	}
}

// create creates an object, compares the response, and deletes the object.
func (r *replay) create(group string, c recorded) {
	r.namespace(c.Path)
	code, body, warnings := r.send(recorded{Method: "POST", Path: c.Path, Query: c.Query, Body: c.Request})
	want := []any{c.Status, mask(c.Response), c.Warnings, nil}
	got := []any{code, mask(body), warnings, nil}
	object, _ := body.(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	if name, _ := meta["name"].(string); name != "" && code < 300 {
		path := c.Path + "/" + name
		if c.Table != nil {
			_, table, _ := r.send(recorded{Method: "GET", Path: path, Accept: "application/json;as=Table;v=v1;g=meta.k8s.io"})
			want[3], got[3] = rows(c.Table), rows(table)
		}
		r.send(recorded{Method: "DELETE", Path: path, Query: "gracePeriodSeconds=0"})
		if code, left, _ := r.send(recorded{Method: "GET", Path: path}); code == http.StatusOK {
			left.(map[string]any)["metadata"].(map[string]any)["finalizers"] = []any{}
			r.send(recorded{Method: "PUT", Path: path, Body: left})
		}
	}
	r.note(group, c.Name, want, got)
}

var inNamespace = regexp.MustCompile(`/namespaces/([^/]+)/`)

// namespace creates the namespace of a path, with the ServiceAccount that pods need.
func (r *replay) namespace(path string) {
	m := inNamespace.FindStringSubmatch(path)
	if m == nil || r.made[m[1]] {
		return
	}
	r.made[m[1]] = true
	r.send(recorded{Method: "POST", Path: "/api/v1/namespaces", Body: map[string]any{"metadata": map[string]any{"name": m[1]}}})
	r.send(recorded{Method: "POST", Path: "/api/v1/namespaces/" + m[1] + "/serviceaccounts", Body: map[string]any{"metadata": map[string]any{"name": "default"}}})
}

func (r *replay) flow(file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		r.Fatal(err)
	}
	var flow struct{ Steps []recorded }
	if err := json.Unmarshal(b, &flow); err != nil {
		r.Fatal(err)
	}
	r.saved = map[string]string{}
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	for i, step := range flow.Steps {
		code, body, warnings := r.send(step)
		if meta, ok := metadata(body); ok && step.Save != "" {
			for _, key := range []string{"resourceVersion", "uid", "name", "continue"} {
				if v, ok := meta[key].(string); ok {
					r.saved[key+":"+step.Save] = v
				}
			}
		}
		want, got := mask(step.Response), mask(body)
		if isTable(step.Response) {
			want, got = rows(step.Response), rows(body)
		}
		r.note("flows/"+name, fmt.Sprintf("[%d] %s %s %s", i, step.Method, step.Path, step.Note),
			[]any{step.Status, want, append([]string{}, step.Warnings...)}, []any{code, got, append([]string{}, warnings...)})
	}
}

func metadata(v any) (map[string]any, bool) {
	object, _ := v.(map[string]any)
	meta, ok := object["metadata"].(map[string]any)
	return meta, ok
}

var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// fill replaces the placeholders of a flow by the values that earlier steps saved. Outside flows it changes nothing.
func (r *replay) fill(s string) string {
	if r.saved == nil {
		return s
	}
	return variable.ReplaceAllStringFunc(s, func(v string) string {
		if got, ok := r.saved[v[2:len(v)-1]]; ok {
			return got
		}
		return "unknown"
	})
}

// send sends a request and returns the response; a body that is not JSON is {"raw": …}.
func (r *replay) send(a recorded) (int, any, []string) {
	r.Helper()
	url := r.env.URL + r.fill(a.Path)
	if a.Query != "" {
		url += "?" + r.fill(a.Query)
	}
	var body io.Reader
	if text, ok := a.Body.(string); ok {
		body = strings.NewReader(r.fill(text))
	} else if a.Body != nil {
		b, err := json.Marshal(a.Body)
		if err != nil {
			r.Fatal(err)
		}
		body = strings.NewReader(r.fill(string(b)))
	}
	req, err := http.NewRequestWithContext(r.Context(), a.Method, url, body)
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+or(a.As, "admin")+"-token")
	req.Header.Set("Accept", or(a.Accept, "application/json"))
	if body != nil {
		req.Header.Set("Content-Type", or(a.ContentTypeSent, "application/json"))
	}
	if a.Impersonate != "" {
		req.Header.Set("Impersonate-User", a.Impersonate)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	var out any
	if json.Unmarshal(b, &out) != nil {
		out = map[string]any{"raw": string(b)}
	}
	return resp.StatusCode, out, append([]string{}, resp.Header.Values("Warning")...)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
