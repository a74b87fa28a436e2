package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

const (
	reportTimeout = 10 * time.Second
	maxReports    = 32 // that are fetched at the same time
)

// Reports returns the reports at a path of the kubelets of nodes, in no order. Several nodes may have the same server, which is asked
// once. Servers that do not respond are left out.
func (k *Kubelets) Reports(ctx context.Context, nodes []string, path string, query url.Values) []metrics.Report {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	type server struct {
		host string
		with http.RoundTripper
	}
	asked := map[server]bool{}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		out  []metrics.Report
		turn = make(chan struct{}, maxReports)
	)
	for _, node := range nodes {
		host, err := k.host(ctx, node)
		if err != nil {
			continue // a node that is gone, or has no address
		}
		s := server{host, k.to(node).requests}
		if asked[s] {
			continue
		}
		asked[s] = true
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			u := url.URL{Scheme: "https", Host: s.host, Path: path, RawQuery: query.Encode()}
			r, err := report(ctx, s.with, u.String())
			if err != nil {
				slog.DebugContext(ctx, "no report of what pods use", "node", node, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, r)
		})
	}
	all.Wait()
	return out
}

// report fetches one report.
func report(ctx context.Context, with http.RoundTripper, address string) (r metrics.Report, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return r, err
	}
	resp, err := (&http.Client{Transport: with}).Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return r, fmt.Errorf("%s: %s", address, resp.Status)
	}
	return r, json.NewDecoder(resp.Body).Decode(&r)
}
