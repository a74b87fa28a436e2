package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/internal/measured"
)

// TestHostileBodies sends bodies that cost much more to decode or to validate than to send. Each gets a response; `make
// measure` also bounds the time.
func TestHostileBodies(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	laughs := "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	labels := &strings.Builder{}
	for i := range 20000 {
		fmt.Fprintf(labels, `"k%d":"not ok!",`, i)
	}
	many := &strings.Builder{}
	for i := range 40000 {
		fmt.Fprintf(many, `"k%d":"v",`, i*7919%40000) // in no order
	}
	owners, usages := &strings.Builder{}, strings.Repeat(`"digital signature",`, 20000)
	for i := range 20000 {
		fmt.Fprintf(owners, `{"apiVersion":"v1","kind":"Pod","name":"p%d","uid":"u%d"},`, i, i)
	}
	for _, c := range []struct {
		name, path, media, body string
		code                    int
		want                    string
	}{
		{"too large", maps, "application/json", strings.Repeat(" ", 3<<20+1), http.StatusRequestEntityTooLarge, "limit is 3145728"},
		{"deep JSON", maps, "application/json", `{"data":{"a":` + strings.Repeat("[", 1<<20), http.StatusBadRequest, "exceeded max depth"},
		{"deep objects", maps, "application/json", strings.Repeat(`{"a":`, 1<<19), http.StatusBadRequest, "exceeded max depth"},
		{"deep YAML", maps, "application/yaml", strings.Repeat("[", 1<<20), http.StatusBadRequest, "exceeded max depth"},
		{"deep YAML by indent", maps, "application/yaml", strings.Repeat("- ", 1<<20), http.StatusBadRequest, "exceeded max depth"},
		{"billion laughs", maps, "application/yaml", laughs, http.StatusBadRequest, "excessive aliasing"},
		{"labels", maps, "application/json", `{"metadata":{"name":"l","labels":{` + labels.String() + `"a":"b"}}}`, http.StatusUnprocessableEntity, "is invalid"},
		{"many labels", maps, "application/json", `{"metadata":{"name":"many","labels":{` + many.String() + `"a":"b"}}}`, http.StatusCreated, `"name":"many"`},
		{"many owners", maps, "application/json", `{"metadata":{"name":"owned","ownerReferences":[` + strings.TrimSuffix(owners.String(), ",") + `]}}`, http.StatusCreated, `"name":"owned"`},
		{"many errors", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "application/json", `{"metadata":{"name":"c"},"spec":{"signerName":"a.b/c","request":"LS0t","usages":[` +
			strings.TrimSuffix(usages, ",") + `]}}`, http.StatusUnprocessableEntity, "Duplicate value"},
		{"many objects", maps, "application/json", `{"metadata":{"name":"o"},"zzz":[` + strings.Repeat("{},", 1<<15) + `1]}`, http.StatusRequestEntityTooLarge, "the values of the body weigh 2097315, the limit is 2097152"},
		{"fewer objects", maps, "application/json", `{"metadata":{"name":"o"},"zzz":[` + strings.Repeat("{},", 1<<15-5) + `1]}`, http.StatusCreated, `"name":"o"`},
		{"many objects in YAML", maps, "application/yaml", `{"metadata":{"name":"o"},"zzz":[` + strings.Repeat("{},", 1<<15) + `1]}`, http.StatusRequestEntityTooLarge, "the values of the body weigh"},
		{"many objects behind a parameter", maps, "application/json; x=protobuf", `{"metadata":{"name":"o"},"zzz":[` + strings.Repeat("{},", 1<<15) + `1]}`, http.StatusRequestEntityTooLarge, "the values of the body weigh"},
		{"many objects in flow YAML", maps, "application/yaml", "metadata: {name: o}\nzzz: [" + strings.Repeat("{},", 1<<15) + "1]", http.StatusRequestEntityTooLarge, "the values of the body weigh"},
		{"many objects of aliases", maps, "application/yaml", "metadata: {name: o}\nx: &x [" + strings.Repeat("{},", 500) + "1]\nzzz: [" + strings.Repeat("*x,", 100) + "1]", http.StatusRequestEntityTooLarge, "the values of the body weigh"},
		{"many objects in options", maps + "/o", "application/yaml", "zzz: [" + strings.Repeat("{},", 1<<15) + "1]", http.StatusRequestEntityTooLarge, "the values of the body weigh"},
		{"an apply of many objects", maps + "/x?fieldManager=m", "application/apply-patch+yaml", "# {}\napiVersion: v1\nkind: ConfigMap\nzzz: [" + strings.Repeat("{},", 1<<15) + "1]", http.StatusRequestEntityTooLarge, "the values of the body weigh"},
		{"a patch in a patch", maps + "/x", "application/json-patch+json", strings.Repeat("[", 1<<20), http.StatusBadRequest, ""},
	} {
		method := http.MethodPost
		switch {
		case strings.Contains(c.path, "/x"):
			method = http.MethodPatch
		case strings.HasSuffix(c.path, "/o"):
			method = http.MethodDelete
		}
		began := time.Now()
		resp, body := do(t, e, method, c.path, c.body, "Content-Type", c.media)
		if resp.StatusCode != c.code && c.want != "" || !strings.Contains(body, c.want) {
			t.Errorf("%s: got %s %.300s", c.name, resp.Status, body)
		}
		took := time.Since(began)
		if measured.Enabled() && took > 10*time.Second {
			t.Errorf("%s took %v", c.name, took)
		}
		t.Logf("%s: %v, %.120s", c.name, took, body)
	}
}

// TestManyKeys updates a large object as it was read, with a managedFields entry for each of its keys.
func TestManyKeys(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	data := &strings.Builder{}
	for i := range 30000 {
		fmt.Fprintf(data, `"k%d":"",`, i)
	}
	resp, body := do(t, e, http.MethodPost, maps, `{"metadata":{"name":"many"},"data":{`+strings.TrimSuffix(data.String(), ",")+`}}`, "Content-Type", "application/json")
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("create: %s %.300s", resp.Status, body)
	}
	resp, body = do(t, e, http.MethodPut, maps+"/many", strings.Replace(body, `"k0":""`, `"k0":"changed"`, 1), "Content-Type", "application/json")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"f:k29999":{}`) {
		t.Errorf("update: %s %.300s", resp.Status, body)
	}
}

// TestIdleWatches bounds the memory that an idle watch takes, in the server and in its client together.
func TestIdleWatches(t *testing.T) {
	measured.Only(t)
	const watches, most = 800, 64 << 10
	e := apiservertest.New(t)
	hc, err := rest.HTTPClientFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	open := func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/api/v1/configmaps?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("watch: %v, %v", resp, err)
		}
		go func() {
			defer resp.Body.Close()
			_, _ = bufio.NewReaderSize(resp.Body, 16).ReadByte()
		}()
	}
	open()
	before := memoryInUse()
	for range watches {
		open()
	}
	if each := (memoryInUse() - before) / watches; each > most {
		t.Errorf("a watch costs %d bytes, more than %d", each, most)
	} else {
		t.Logf("a watch costs %d bytes, with its client", each)
	}
}

func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // frees what the first collection found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
