package stage

import "context"

// Notes receives remarks about a request before its stages begin, e.g. about its token. It is safe for concurrent use.
type Notes interface {
	Warn(text string)           // adds a Warning header to the response
	Annotate(key, value string) // adds an annotation to the request's entry in the audit log
}

// NotesKey is the key of a request's Notes in its context.
type NotesKey struct{}

// NotesOf returns the Notes of a request. Those of in-process requests drop what they receive.
func NotesOf(ctx context.Context) Notes {
	if n, ok := ctx.Value(NotesKey{}).(Notes); ok {
		return n
	}
	return noNotes{}
}

type noNotes struct{}

func (noNotes) Warn(string)             {}
func (noNotes) Annotate(string, string) {}
