//go:build !race

package mutation

// Enabled reports whether caches have a Detector: in builds with the race detector.
const Enabled = false
