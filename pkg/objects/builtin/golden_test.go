package builtin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/internal/golden"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/core"
)

var (
	update = flag.Bool("update", false, "write the counts of equal golden cases")
	show   = flag.String("show", "", "show what differs in the golden cases whose name has this in it")
)

// recorded is a create and its response.
type recorded struct {
	Name, Path string
	Status     int
	Request    json.RawMessage
	Response   map[string]any
	Table      *recordedTable
	Warnings   []string
}

type recordedTable struct {
	ColumnDefinitions []struct {
		Name, Type, Format string
		Priority           int32
	}
	Rows [][]any
}

// TestGolden compares defaults, errors, warnings and tables of the rows with recorded responses to creates.
func TestGolden(t *testing.T) { golden.Run(t, testGolden) }

func testGolden(t *testing.T, recordings golden.Recordings) {
	dir, counts := recordings.Dir, recordings.Counts()
	want := readCounts(t, counts)
	var lines []string
	for _, r := range builtin.Resources() {
		path := filepath.Join(dir, "create", r.Names.Kind+".jsonl")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		equal, all := 0, 0
		for _, c := range readCases(t, path) {
			if c.Status != 201 && c.Status != 422 {
				continue // the response of the codec or of admission
			}
			all++
			diff := compare(r, c)
			if diff == "" {
				equal++
			} else if *show != "" && strings.Contains(r.Names.Kind+"/"+c.Name, *show) {
				t.Logf("%s/%s: %s", r.Names.Kind, c.Name, diff)
			}
		}
		lines = append(lines, fmt.Sprintf("%s %d %d", r.Names.Kind, equal, all))
		if equal < want[r.Names.Kind] {
			t.Errorf("%s: %d of %d recorded cases are equal, were %d", r.Names.Kind, equal, all, want[r.Names.Kind])
		}
		t.Logf("%s: %d of %d", r.Names.Kind, equal, all)
	}
	if *update {
		if err := os.WriteFile(counts, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readCounts parses the number of equal cases per kind, in lines KIND EQUAL OF.
func readCounts(t *testing.T, counts string) map[string]int {
	b, err := os.ReadFile(counts)
	if err != nil && !*update {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(b)) {
		var kind string
		var equal, all int
		if _, err := fmt.Sscan(line, &kind, &equal, &all); err != nil {
			t.Fatalf("%s: %q: %v", counts, line, err)
		}
		out[kind] = equal
	}
	return out
}

func readCases(t *testing.T, path string) []recorded {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c recorded
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, c)
	}
	return out
}

// uid is the UID of all objects here. In recordings it is masked.
const (
	uid    = "7b0c0ab4-9f3e-4c58-8a7e-3d8f3f0f5a11"
	masked = "<masked>"
)

// compare returns the difference between the row's response and the recorded one.
func compare(r objects.Resource, c recorded) string {
	obj := r.New()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(c.Request, obj); err != nil {
		return "decode: " + err.Error()
	}
	if _, rest, ok := strings.Cut(c.Path, "/namespaces/"); ok && !r.Names.Cluster {
		namespace, _, _ := strings.Cut(rest, "/")
		obj.SetNamespace(namespace)
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(obj.GetGenerateName() + "xxxxx")
		if meta, ok := c.Response["metadata"].(map[string]any); ok {
			if name, ok := meta["name"]; ok {
				obj.SetName(fmt.Sprint(name))
			} else if details, ok := c.Response["details"].(map[string]any); ok { // the name in an error
				obj.SetName(fmt.Sprint(details["name"]))
			}
		}
	}
	if r.Names.Cluster {
		obj.SetNamespace("") // as the server does
	}
	r.Default(obj)
	obj.SetUID(uid) // before Prepare, as the server does
	allocate(obj)
	r.Prepare(obj, nil)
	errs := r.Validate(obj, nil)
	if c.Status == 422 {
		return compareCauses(errs, c)
	}
	if len(errs) > 0 {
		return "refused: " + errs.ToAggregate().Error()
	}
	if diff := compareWarnings(r, obj, c); diff != "" {
		return diff
	}
	if diff := compareObject(obj, c); diff != "" {
		return diff
	}
	return compareTable(r, c)
}

// allocate sets the addresses of a Service that validation requires.
func allocate(obj objects.Object) {
	s, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	core.KeepAllocated(&s.Spec, nil)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal &&
		s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = 30000
	}
}

// compareCauses compares errors with the causes of an Invalid response, in order, except those that the allocators
// report.
func compareCauses(errs field.ErrorList, c recorded) string {
	details, _ := c.Response["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	var want, got []string
	for _, cause := range causes {
		m := cause.(map[string]any)
		want = append(want, fmt.Sprintf("%v %v: %v", m["reason"], m["field"], m["message"]))
	}
	for _, err := range check.ShowAll(errs) {
		got = append(got, fmt.Sprintf("%s %s: %s", string(err.Type), err.Field, strings.ReplaceAll(err.ErrorBody(), uid, masked)))
	}
	if !slices.Equal(want, got) {
		return fmt.Sprintf("causes:\n want %s\n got  %s", strings.Join(want, "\n      "), strings.Join(got, "\n      "))
	}
	return ""
}

// compareWarnings compares warnings, except those about unknown fields, which the codec adds.
func compareWarnings(r objects.Resource, obj objects.Object, c recorded) string {
	var want []string
	for _, w := range c.Warnings {
		if !strings.Contains(w, "unknown field") {
			text := strings.TrimSuffix(strings.TrimPrefix(w, `299 - "`), `"`)
			want = append(want, strings.ReplaceAll(text, `\"`, `"`))
		}
	}
	got := r.Warnings(obj, nil)
	if text := r.Versions[0].Deprecated; text != "" {
		got = append([]string{text}, got...)
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("warnings: want %q got %q", want, got)
	}
	return ""
}

func compareObject(obj objects.Object, c recorded) string {
	b, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	var got, sent map[string]any
	if err := json.Unmarshal(bytes.ReplaceAll(b, []byte(uid), []byte(masked)), &got); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(c.Request, &sent); err != nil {
		return err.Error()
	}
	want := deepCopy(c.Response)
	for _, m := range []map[string]any{want, got} {
		meta, _ := m["metadata"].(map[string]any)
		if recordedMeta, _ := c.Response["metadata"].(map[string]any); recordedMeta["name"] == "<masked>" {
			delete(meta, "name") // generated by the server
		}
		for _, name := range []string{"managedFields", "uid", "resourceVersion", "creationTimestamp", "namespace"} {
			delete(meta, name)
		}
		withoutAllocated(m)
	}
	if c.Response["kind"] == "Pod" {
		withoutTimes(want)
		withoutTimes(got)
		withoutAdmission(want, sent)
		withoutAdmission(got, sent)
	}
	return firstDiff(want, got, "")
}

func deepCopy(m map[string]any) map[string]any {
	b, _ := json.Marshal(m)
	var out map[string]any
	_ = json.Unmarshal(b, &out)
	return out
}

// withoutAllocated removes the allocated fields of a Service.
func withoutAllocated(m map[string]any) {
	if m["kind"] != "Service" {
		return
	}
	spec := m["spec"].(map[string]any)
	for _, name := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"} {
		delete(spec, name)
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		delete(p.(map[string]any), "nodePort")
	}
}

// withoutAdmission removes from a pod what admission adds: the service account and its token, tolerations, priority.
func withoutAdmission(m, sent map[string]any) {
	spec := m["spec"].(map[string]any)
	sentSpec, _ := sent["spec"].(map[string]any)
	for _, name := range []string{"serviceAccount", "serviceAccountName", "priority", "preemptionPolicy", "imagePullSecrets"} {
		if _, ok := sentSpec[name]; !ok && !(name == "serviceAccount" && sentSpec["serviceAccountName"] != nil) {
			delete(spec, name)
		}
	}
	filter(spec, "volumes", func(v map[string]any) bool { return strings.HasPrefix(fmt.Sprint(v["name"]), "kube-api-access-") })
	filter(spec, "tolerations", func(v map[string]any) bool {
		key := fmt.Sprint(v["key"])
		return v["tolerationSeconds"] == 300.0 && (key == "node.kubernetes.io/not-ready" || key == "node.kubernetes.io/unreachable")
	})
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			filter(c.(map[string]any), "volumeMounts", func(v map[string]any) bool { return strings.HasPrefix(fmt.Sprint(v["name"]), "kube-api-access-") })
		}
	}
}

// withoutTimes removes the times of conditions.
func withoutTimes(m map[string]any) {
	status, _ := m["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		delete(c.(map[string]any), "lastTransitionTime")
	}
}

func filter(m map[string]any, name string, drop func(map[string]any) bool) {
	list, _ := m[name].([]any)
	list = slices.DeleteFunc(list, func(v any) bool { return drop(v.(map[string]any)) })
	if len(list) == 0 {
		delete(m, name)
		return
	}
	m[name] = list
}

func firstDiff(want, got any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for key := range w {
			keys[key] = true
		}
		for key := range g {
			keys[key] = true
		}
		for _, key := range sortedKeys(keys) {
			if diff := firstDiff(w[key], g[key], at+"."+key); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			if diff := firstDiff(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); diff != "" {
				return diff
			}
		}
		return ""
	}
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if bytes.Equal(a, b) {
		return ""
	}
	return fmt.Sprintf("%s: want %s got %s", at, a, b)
}

func sortedKeys(m map[string]bool) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

var aging = map[string]bool{"Age": true, "Last Seen": true, "First Seen": true}

// nodePort matches a node port in a table's list of ports.
var nodePort = regexp.MustCompile(`:3[0-2]\d{3}/`)

// withNodePorts replaces masked node ports by numbers.
func withNodePorts(m map[string]any) {
	spec, _ := m["spec"].(map[string]any)
	if spec["healthCheckNodePort"] == "<masked>" {
		spec["healthCheckNodePort"] = 30000
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port := p.(map[string]any); port["nodePort"] == "<masked>" {
			port["nodePort"] = 30000
		}
	}
}

// compareTable compares the table of the recorded object with the recorded table.
func compareTable(r objects.Resource, c recorded) string {
	if c.Table == nil {
		return ""
	}
	obj := r.New()
	response := deepCopy(c.Response)
	meta, _ := response["metadata"].(map[string]any)
	delete(meta, "managedFields")
	delete(meta, "creationTimestamp")
	withNodePorts(response)
	b, _ := json.Marshal(response)
	if r.Names.Kind == "Job" { // its labels hold its UID
		b = bytes.ReplaceAll(b, []byte(`\u003cmasked\u003e`), []byte(uid))
	}
	if err := json.Unmarshal(b, obj); err != nil {
		return err.Error()
	}
	columns := r.Versions[0].Columns
	if len(columns) != len(c.Table.ColumnDefinitions) {
		return fmt.Sprintf("table: want %d columns got %d", len(c.Table.ColumnDefinitions), len(columns))
	}
	for i, def := range c.Table.ColumnDefinitions {
		got := columns[i]
		if got.Name != def.Name || got.Type != def.Type || got.Format != def.Format || got.Priority != def.Priority || got.Description == "" {
			return fmt.Sprintf("table: column %d: want %v got %v", i, def, got)
		}
		want, cell := c.Table.Rows[0][i], got.Cell(obj, time.Now())
		if text, ok := cell.(string); ok {
			cell = strings.ReplaceAll(text, uid, masked)
		}
		if text, ok := want.(string); ok {
			want = nodePort.ReplaceAllString(text, ":30000/")
		}
		if !aging[def.Name] && fmt.Sprint(want) != fmt.Sprint(cell) && fmt.Sprint(want) != "<masked>" {
			if f, ok := want.(float64); !ok || fmt.Sprint(int64(f)) != fmt.Sprint(cell) {
				return fmt.Sprintf("table: %s: want %v got %v", def.Name, want, cell)
			}
		}
	}
	return ""
}
