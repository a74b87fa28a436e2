// Package bench measures the built program from outside, as a user observes it: the time of a start and of the first pod,
// the memory of an idle cluster, and the time until many pods are Ready. docs/benchmarks.md has the figures.
package bench
