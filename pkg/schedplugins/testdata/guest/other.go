//go:build !wasip1

package main

// main lets tools load the package on other platforms.
func main() {}
