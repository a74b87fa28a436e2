package daemon

import (
	"encoding/json"
	"strings"
)

// flags returns the settings that are a text, a number, a switch or a list of texts, by their names in the config file. The others, for example images
// and their commands, may hold secrets.
func (c *Config) flags() map[string]string {
	out := map[string]string{}
	raw, err := json.Marshal(c)
	if err != nil {
		return out
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return out
	}
	for name, value := range all {
		var text string
		var list []string
		switch {
		case json.Unmarshal(value, &text) == nil:
			out[name] = text
		case json.Unmarshal(value, &list) == nil:
			out[name] = strings.Join(list, ",")
		case !strings.HasPrefix(string(value), "{") && !strings.HasPrefix(string(value), "["):
			out[name] = string(value)
		}
	}
	return out
}
