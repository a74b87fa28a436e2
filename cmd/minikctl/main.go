// Command minikctl is a whole Kubernetes in one binary: see the package cli for its verbs.
package main

import (
	"context"
	"os"

	"github.com/minikctl/minikctl/pkg/cli"
	_ "github.com/minikctl/minikctl/pkg/early" // container processes leave here, before anything large is initialised
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}
