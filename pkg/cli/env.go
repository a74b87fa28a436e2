// Package cli is the command line: minikctl's own verbs, a file each, and kubectl's, linked one by one from
// k8s.io/kubectl. Verbs access the cluster through client-go like any other client.
//
// minikctl connects to its own daemon (see --name) unless --kubeconfig, --context, --cluster, --user or --server selects
// another server, and starts that daemon when none runs. Called by the name kubectl, it follows kubectl's rules instead.
package cli

import (
	"io"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Env is the environment of a verb: its streams, its clock and its connection to the cluster. Verbs use no globals.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time

	Factory cmdutil.Factory // makes kubectl's clients, builders and printers
	Target  *Target         // selects the daemon

	Plugins scheduler.Registry // the scheduler's
}

// Streams returns the streams in kubectl's type.
func (e *Env) Streams() genericiooptions.IOStreams {
	return genericiooptions.IOStreams{In: e.In, Out: e.Out, ErrOut: e.Err}
}
