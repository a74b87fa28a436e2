// Package directory watches directories of this machine for changes.
package dirwatch

import "github.com/fsnotify/fsnotify"

// Watch signals changes in directories, coalesced, until the returned function is called. A directory that the system can't watch gives no
// signals, so the caller also polls.
func Watch(dirs ...string) (<-chan struct{}, func()) {
	changes := make(chan struct{}, 1)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return changes, func() {}
	}
	for _, f := range dirs {
		_ = w.Add(f) // without notifications the caller polls
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case _, ok := <-w.Events:
				if !ok {
					return
				}
			case _, ok := <-w.Errors: // the watcher dropped events
				if !ok {
					return
				}
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes, func() { w.Close(); <-done }
}
