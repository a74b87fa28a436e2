// Command minikctl is a whole Kubernetes in one binary: see the package cli for its verbs.
package main

import (
	"context"
	"os"

	"github.com/minikctl/minikctl/pkg/app"
)

func main() {
	os.Exit(app.Run(context.Background()))
}
