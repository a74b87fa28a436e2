package verbs

import (
	"cmp"
	"strings"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// maxNoteChanges bounds the changes in a span's note.
const maxNoteChanges = 3

// note names the columns of the resource's table that a write has changed: "Status Pending → Running". The columns of the
// wide table count only if no other has changed: a binding of a pod changes only the column Node.
func (w *write) note(obj objects.Object, old *cache.Item) string {
	if old == nil || w.req.Verb == "delete" {
		return ""
	}
	was, err := old.Object()
	if err != nil {
		return ""
	}
	if note := w.changedColumns(was, obj, false); note != "" {
		return note
	}
	return w.changedColumns(was, obj, true)
}

// changedColumns names the columns of either table that differ between the two objects, maxNoteChanges at most.
func (w *write) changedColumns(was, obj objects.Object, wide bool) string {
	var out []string
	for _, c := range w.r.Versions[0].Columns {
		if c.Priority > 0 != wide || c.Type != "string" || c.Format == "name" || c.Name == "Age" {
			continue
		}
		before, _ := c.Cell(was, w.config.Clock.Now()).(string)
		after, _ := c.Cell(obj, w.config.Clock.Now()).(string)
		if before != after && len(out) < maxNoteChanges {
			out = append(out, c.Name+" "+cmp.Or(before, "<none>")+" → "+cmp.Or(after, "<none>"))
		}
	}
	return strings.Join(out, ", ")
}
