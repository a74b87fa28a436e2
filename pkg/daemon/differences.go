package daemon

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Differences returns the settings of c that differ from those with which the daemon of p runs, by their names in the config file. Of the settings
// that the cluster does not keep, defaults are no difference.
func (c *Config) Differences(p Paths, running State) ([]string, error) {
	last, err := readSettings(p)
	if err != nil || last == nil {
		return nil, err
	}
	out := differences(c.clusterSettings(), last.clusterSettings())
	if slices.ContainsFunc(Parts, func(part string) bool { return c.Runs(part) != slices.Contains(running.Parts, part) }) {
		out = append(out, "only")
	}
	for _, s := range []struct{ name, wanted, is, byDefault string }{
		{"listen", c.Listen, running.Listen, defaultListen},
		{"logLevel", c.LogLevel, running.LogLevel, defaultLogLevel},
		{"writeKubeconfig", c.WriteKubeconfig, running.WriteKubeconfig, ""},
	} {
		if s.wanted != s.is && s.wanted != s.byDefault {
			out = append(out, s.name)
		}
	}
	return out, nil
}

// differences returns the names of the settings that differ.
func differences(a, b Config) []string {
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		field := x.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && name != "-" && !equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			out = append(out, name)
		}
	}
	return out
}
