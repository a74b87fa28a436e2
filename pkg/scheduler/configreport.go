package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

const (
	repeatReport = time.Minute // an API server that starts again has lost the report
	retryReport  = time.Second
)

// newConfigReport returns the SchedulerConfig of a configuration that is in force from now on.
func (s *Scheduler) newConfigReport(m *setup) (*minikctl.SchedulerConfig, error) {
	conf := m.effective()
	for i := range conf.Extenders {
		if tls := conf.Extenders[i].TLSConfig; tls != nil {
			tls.KeyData = nil // a secret, and readers of the record need not be readers of secrets
		}
	}
	raw, err := EncodeConfig(conf)
	if err != nil {
		return nil, err
	}
	out := &minikctl.SchedulerConfig{File: s.file, Applied: metav1.NewMicroTime(s.clock.Now()), Configuration: runtime.RawExtension{Raw: raw}}
	out.SetGroupVersionKind(minikctl.GroupVersion.WithKind("SchedulerConfig"))
	out.Name, out.Generation = m.order[0].name, m.generation
	for _, p := range m.order {
		out.Profiles = append(out.Profiles, p.name)
	}
	return out, nil
}

// reportConfig reports a configuration that is in force from now on.
func (s *Scheduler) reportConfig(ctx context.Context, m *setup) {
	for _, p := range m.order {
		if own := p.merged; !m.features.TopologyAwareWorkloadScheduling && len(own.PlacementGenerate.Enabled)+len(own.PlacementScore.Enabled) > 0 {
			slog.WarnContext(ctx, "plugins of placements are not called: the feature gate TopologyAwareWorkloadScheduling is off", "profile", p.name)
		}
	}
	c, err := s.newConfigReport(m)
	if err != nil {
		slog.WarnContext(ctx, "scheduler config not reported", "err", err)
		return
	}
	s.decisions.configured(c)
}

// Ready reports whether the scheduler has the state of the cluster, and schedules. It is safe for concurrent use.
func (s *Scheduler) Ready() bool { return s.ready.Load() }

// Configuration returns the configuration in force as JSON with its defaults, and whether it enables profiling; nil before Run. It is safe for
// concurrent use.
func (s *Scheduler) Configuration() (raw []byte, profiling bool) {
	c := s.decisions.config.Load()
	if c == nil {
		return nil, false
	}
	var fields struct{ EnableProfiling *bool }
	if err := json.Unmarshal(c.Configuration.Raw, &fields); err != nil {
		return nil, false // EncodeConfig has made it
	}
	return c.Configuration.Raw, fields.EnableProfiling == nil || *fields.EnableProfiling
}

// configured reports a configuration.
func (r *reporter) configured(c *minikctl.SchedulerConfig) {
	r.config.Store(c)
	select {
	case r.newConfig <- struct{}{}:
	default:
	}
}

// refused reports why the file's content is not in force.
func (r *reporter) refused(err error) {
	if last := r.config.Load(); last != nil {
		c := *last
		c.Refused = err.Error()
		r.configured(&c)
	}
}

// runConfigs sends the current configuration when it changes, and from time to time, until ctx ends.
func (r *reporter) runConfigs(ctx context.Context) {
	for {
		wait := repeatReport
		if c := r.config.Load(); c != nil {
			if _, err := r.client.Create(ctx, client.Target{Resource: minikctl.SchedulerConfigs}, c, metav1.CreateOptions{}); err != nil {
				slog.DebugContext(ctx, "scheduler config not reported", "err", err)
				wait = retryReport
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-r.newConfig:
		case <-clock.Machine(r.clock).After(wait):
		}
	}
}
