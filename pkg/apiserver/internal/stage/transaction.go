package stage

import "context"

// Transaction holds what hooks and reservers have taken for one attempt of a write. The write path ends it exactly once:
// with Commit when the store holds the object, also if something fails after that, and with Rollback otherwise, also
// after a panic. The zero value is ready to use. It is not safe for concurrent use.
type Transaction struct {
	// DryRun says that Rollback will end the transaction: hooks write nothing.
	DryRun bool

	commits   []func(context.Context)
	rollbacks []func(context.Context)
}

// OnCommit registers a function that Commit calls. The functions are called in the order of their registration.
func (t *Transaction) OnCommit(f func(context.Context)) { t.commits = append(t.commits, f) }

// OnRollback registers a function that Rollback calls. The functions are called in the reverse order of their
// registration, each with a context that is not cancelled together with the request.
func (t *Transaction) OnRollback(f func(context.Context)) { t.rollbacks = append(t.rollbacks, f) }

// Commit keeps what was taken.
func (t *Transaction) Commit(ctx context.Context) {
	for _, f := range t.commits {
		f(ctx)
	}
}

// Rollback releases what was reserved. When a function panics, the remaining functions are called before the panic
// continues.
func (t *Transaction) Rollback(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, f := range t.rollbacks {
		defer f(ctx) // in the reverse order, also when one of them panics
	}
}
