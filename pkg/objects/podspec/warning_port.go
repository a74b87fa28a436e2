package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ports warns about ports that conflict or may conflict.
func (w *warner) ports() {
	type place struct {
		port *corev1.ContainerPort
		at   *field.Path
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	seen := map[number][]place{}
	eachContainer(w.spec, w.at.Child("spec"), func(c *corev1.Container, at *field.Path) {
		for i := range c.Ports {
			p, here := &c.Ports[i], at.Child("ports").Index(i)
			if p.HostIP != "" && p.HostPort == 0 {
				w.warn(here, "hostIP set without hostPort: %+v", shownPort(p))
			}
			same := number{p.ContainerPort, p.Protocol}
			for _, o := range seen[same] {
				if w.full() {
					return
				}
				switch {
				case p.HostIP == o.port.HostIP && p.HostPort == o.port.HostPort:
					w.warn(here, "duplicate port definition with %s", o.at)
				case p.HostPort == 0 || o.port.HostPort == 0:
					w.warn(here, "overlapping port definition with %s", o.at)
				case p.HostPort == o.port.HostPort && (p.HostIP == "" || o.port.HostIP == ""):
					w.warn(here, "dangerously ambiguous port definition with %s", o.at)
				}
			}
			seen[same] = append(seen[same], place{p, here})
		}
	})
}

// shownPort formats a port for a warning, with Go's field names.
func shownPort(p *corev1.ContainerPort) any {
	return struct {
		Name          string
		HostPort      int32
		ContainerPort int32
		Protocol      corev1.Protocol
		HostIP        string
	}{p.Name, p.HostPort, p.ContainerPort, p.Protocol, p.HostIP}
}

// portNames warns about port names that several containers have.
func (w *warner) portNames() {
	seen := map[string]*field.Path{}
	eachContainer(w.spec, w.at.Child("spec"), func(c *corev1.Container, at *field.Path) {
		for i := range c.Ports {
			name, here := c.Ports[i].Name, at.Child("ports").Index(i)
			first, ok := seen[name]
			switch {
			case name == "":
			case ok:
				w.warn(here, "duplicate port name %q with %s, services and probes that select ports by name will use %s", name, first, first)
			default:
				seen[name] = here
			}
		}
	})
}
