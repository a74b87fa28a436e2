// Package zpages serves a component's pages for debugging, /statusz and /flagz, as Kubernetes' components do (KEP-4827, KEP-4828): as text, and as
// objects of config.k8s.io for clients that ask for these.
package zpages

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/release"
)

// Component serves the pages of a component. It is safe for concurrent use.
type Component struct {
	name    string
	machine clock.Clock
	started time.Time
	paths   []string
	flags   map[string]string
}

// New returns the pages of a component that starts now: its name, for example kube-scheduler, its flags, and the paths that it serves.
func New(name string, machine clock.Clock, flags map[string]string, paths []string) *Component {
	return &Component{name, machine, machine.Now(), debugPaths(paths), flags}
}

// status is the object Statusz, of either version.
type status struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	StartTime         metav1.Time `json:"startTime"`
	UptimeSeconds     int64       `json:"uptimeSeconds"`
	GoVersion         string      `json:"goVersion"`
	BinaryVersion     string      `json:"binaryVersion"`
	EmulationVersion  string      `json:"emulationVersion,omitempty"`
	Paths             []string    `json:"paths"`
}

// flags is the object Flagz, of either version.
type flags struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Flags             map[string]string `json:"flags,omitempty"`
}

const warning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only."

// Statusz serves the state of the process.
func (c *Component) Statusz(w http.ResponseWriter, r *http.Request) {
	up := max(0, c.machine.Now().Sub(c.started))
	s := status{
		StartTime: metav1.NewTime(c.started), UptimeSeconds: int64(up.Seconds()),
		GoVersion: runtime.Version(), BinaryVersion: release.Number, EmulationVersion: release.Major + "." + release.Minor,
		Paths: c.paths,
	}
	serve(w, r, "Statusz", func(t metav1.TypeMeta) any {
		s.TypeMeta, s.Name = t, c.name
		return s
	}, func() string {
		return fmt.Sprintf("\n%s statusz\n%s\n\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
			c.name, warning, c.started.Format(time.UnixDate), s.UptimeSeconds/3600, s.UptimeSeconds/60%60, s.UptimeSeconds%60,
			s.GoVersion, s.BinaryVersion, s.EmulationVersion, strings.Join(s.Paths, " "))
	})
}

// Flagz serves the flags.
func (c *Component) Flagz(w http.ResponseWriter, r *http.Request) {
	serve(w, r, "Flagz", func(t metav1.TypeMeta) any {
		return flags{TypeMeta: t, ObjectMeta: metav1.ObjectMeta{Name: c.name}, Flags: c.flags}
	}, func() string {
		var text strings.Builder
		fmt.Fprintf(&text, "\n%s flagz\n%s\n", c.name, warning)
		for _, name := range slices.Sorted(maps.Keys(c.flags)) {
			fmt.Fprintf(&text, "%s=%s\n", name, c.flags[name])
		}
		return text.String()
	})
}

// debugPaths returns the first segments of paths that are of use for debugging.
func debugPaths(all []string) []string {
	out := []string{}
	for _, path := range all {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch first {
		case "", "api", "apis", "openid", "openapi", ".well-known":
		default:
			out = append(out, "/"+first)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// form is a form of a page.
type form struct {
	media string
	write func(w http.ResponseWriter, obj any) // nil for text
}

// forms are in the order of preference.
var forms = []form{{"application/json", writeJSON}, {"application/yaml", writeYAML}, {"text/plain", nil}}

// serve writes a page in the first form that the client accepts. A client that names none gets text.
func serve(w http.ResponseWriter, r *http.Request, kind string, object func(metav1.TypeMeta) any, text func() string) {
	f, version, ok := choose(r.Header.Get("Accept"), kind)
	switch {
	case !ok:
		refuse(w)
	case f.write == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(text())) // fails only when the client has disconnected
	default:
		if version == "v1alpha1" {
			w.Header().Set("Warning", fmt.Sprintf("299 - %q", "This version of the "+strings.ToLower(kind)+" endpoint is deprecated. Please use a newer version."))
		}
		w.Header().Set("Content-Type", fmt.Sprintf("%s;g=config.k8s.io;v=%s;as=%s", f.media, version, kind))
		f.write(w, object(metav1.TypeMeta{Kind: kind, APIVersion: "config.k8s.io/" + version}))
	}
}

// choose returns the form that a client accepts, and the version of the object in it. Text is never an object, and the others always are.
func choose(accept, kind string) (_ form, version string, ok bool) {
	if strings.TrimSpace(accept) == "" {
		accept = "text/plain"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		p := clause.Params
		isObject := p["g"] == "config.k8s.io" && p["as"] == kind && (p["v"] == "v1beta1" || p["v"] == "v1alpha1")
		asks := p["g"] != "" || p["as"] != "" || p["v"] != ""
		for _, f := range forms {
			main, sub, _ := strings.Cut(f.media, "/")
			if !matches(clause.Type, main) || !matches(clause.SubType, sub) {
				continue
			}
			if f.write != nil && isObject || f.write == nil && !asks {
				return f, p["v"], true
			}
		}
	}
	return form{}, "", false
}

func matches(accepted, is string) bool { return accepted == "*" || accepted == is }

func writeJSON(w http.ResponseWriter, obj any) {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(obj) // fails only when the client has disconnected
}

func writeYAML(w http.ResponseWriter, obj any) {
	b, err := yaml.Marshal(obj)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(b)
}

// refuse writes the Status for a client that accepts none of the forms.
func refuse(w http.ResponseWriter) {
	var names []string
	for _, f := range forms {
		names = append(names, f.media)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotAcceptable)
	writeJSON(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(names, ", "), Code: http.StatusNotAcceptable,
	})
}
