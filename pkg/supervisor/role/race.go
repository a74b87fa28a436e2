//go:build race

package role

import "os"

// Inherited returns the variables that a process of this program takes over from this one: the options of the race detector.
func Inherited() []string {
	if options, ok := os.LookupEnv("GORACE"); ok {
		return []string{"GORACE=" + options}
	}
	return nil
}
