package verbs

import (
	"strings"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// longestNote is how many changes a span's note names.
const longestNote = 3

// note says in a few words what a write has changed, as the resource's columns show it: "Status Pending → Running".
func (w *write) note(obj objects.Object, old *cache.Item) string {
	if old == nil || w.req.Verb == "delete" {
		return ""
	}
	was, err := old.Object()
	if err != nil {
		return ""
	}
	var out []string
	for _, c := range w.r.Versions[0].Columns {
		if c.Priority > 0 || c.Type != "string" || c.Format == "name" || c.Name == "Age" {
			continue
		}
		before, _ := c.Cell(was, w.began).(string)
		after, _ := c.Cell(obj, w.began).(string)
		if before != after && len(out) < longestNote {
			out = append(out, c.Name+" "+before+" → "+after)
		}
	}
	return strings.Join(out, ", ")
}
