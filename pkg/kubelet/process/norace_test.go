//go:build !race

package process_test

// watchRaces does nothing: this program has no race detector.
func watchRaces() (check func() error) { return func() error { return nil } }
