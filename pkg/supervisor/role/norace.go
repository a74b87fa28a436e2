//go:build !race

package role

// Inherited returns the variables that a process of this program takes over from this one: none.
func Inherited() []string { return nil }
