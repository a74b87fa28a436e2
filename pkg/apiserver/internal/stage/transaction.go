package stage

import "context"

// Transaction holds what hooks and reservers have taken for one attempt of a write until the store has decided about it.
// The write path ends it exactly once, like a database/sql.Tx: it defers Rollback, which has no effect after Commit, so
// that errors and panics give back everything. The zero value is ready to use. It is not safe for concurrent use.
type Transaction struct {
	commits   []func(context.Context)
	rollbacks []func(context.Context)
	ended     bool
}

// OnCommit registers a function that Commit calls. The functions are called in the order of their registration.
func (t *Transaction) OnCommit(f func(context.Context)) { t.commits = append(t.commits, f) }

// OnRollback registers a function that Rollback calls. The functions are called in the reverse order of their
// registration, each with a context that is not cancelled together with the request.
func (t *Transaction) OnRollback(f func(context.Context)) { t.rollbacks = append(t.rollbacks, f) }

// Commit keeps what was taken. It has no effect on a transaction that has ended.
func (t *Transaction) Commit(ctx context.Context) {
	if t.ended {
		return
	}
	t.ended = true
	for _, f := range t.commits {
		f(ctx)
	}
}

// Rollback gives back what was taken. It has no effect on a transaction that has ended. When a function panics, the
// remaining functions are called before the panic goes on.
func (t *Transaction) Rollback(ctx context.Context) {
	if t.ended {
		return
	}
	t.ended = true
	ctx = context.WithoutCancel(ctx)
	for _, f := range t.rollbacks {
		defer f(ctx) // in the reverse order, also when one of them panics
	}
}
