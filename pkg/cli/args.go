package cli

import (
	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// arguments accepts from least to most arguments, of which the first is called name in the error when it is missing. A negative most is any
// number.
func arguments(name string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return cmdutil.UsageErrorf(cmd, "%s is needed", name)
		case most >= 0 && len(args) > most:
			return cmdutil.UsageErrorf(cmd, "unexpected arguments: %v", args[most:])
		}
		return nil
	}
}

// noName accepts no arguments, and explains how a cluster is named.
func noName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cmdutil.UsageErrorf(cmd, "unexpected arguments: %v; the name of a cluster is a flag: --name %s", args, args[0])
}
