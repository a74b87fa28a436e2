// Package linear tests that an API server stays linearizable while its process is killed again and again: clients create, read, update
// and delete few objects, and watches show each change once and in order across the restarts.
package linear
