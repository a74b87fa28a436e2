// Command plugins is minikctl with two more scheduler plugins. The daemons that it starts have them, too.
package main

import (
	"context"
	"os"

	"github.com/minikctl/minikctl/pkg/app"
)

func main() {
	os.Exit(app.Run(context.Background(), app.WithPlugin(NamespaceLimit, newNamespaceLimit), app.WithPlugin(Draining, newDraining)))
}
