package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// ExitError ends the program with the exit status Code; a nil Err prints nothing.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Run runs the command line args, whose first element is the name of the program, and returns the exit status. plugins are those of the
// scheduler. In a process that early.RunDaemon has started, the command line comes from there. Errors are printed to errOut, as kubectl prints
// them.
func Run(ctx context.Context, plugins scheduler.Registry, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot(plugins, early.CommandLine(args), in, out, errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	var exit *ExitError
	if errors.As(err, &exit) {
		if code = exit.Code; exit.Err == nil {
			return code
		}
	}
	cmdutil.BehaviorOnFatal(func(msg string, _ int) {
		if msg = strings.TrimSuffix(msg, "\n"); !strings.HasPrefix(msg, "Error from server") && !strings.HasPrefix(msg, "error: ") && !strings.HasPrefix(msg, "The ") {
			msg = "error: " + msg
		}
		fmt.Fprintln(errOut, msg)
	})
	cmdutil.CheckErr(err)
	return code
}

// newRoot builds the tree of commands. When the first argument names a verb, only that verb is built: building all of
// kubectl's takes longer than most verbs run.
func newRoot(plugins scheduler.Registry, args []string, in io.Reader, out, errOut io.Writer) *cobra.Command {
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	env := &Env{In: in, Out: out, Err: errOut, Now: clock.Real().Now, Target: newTarget(name == "kubectl", errOut), Plugins: plugins}
	warnings := rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	root := &cobra.Command{
		Use:           name,
		Short:         "A whole Kubernetes in one binary",
		Long:          "minikctl runs Kubernetes on this machine: an API server, controllers, a scheduler, and kubelets that run\ncontainers as local processes. Every kubectl verb is here too.",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			rest.SetDefaultWarningHandler(warnings)
		},
		Run: func(cmd *cobra.Command, _ []string) { _ = cmd.Help() },
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetArgs(args[1:])
	root.SetUsageTemplate(ownFlagsOnly(root.UsageTemplate()))
	showHelp := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if !isOwn(cmd) {
			cmd.Example = strings.ReplaceAll(cmd.Example, "kubectl ", name+" ") // which may use another cluster
		}
		showHelp(cmd, args)
	})
	root.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if isOwn(cmd) {
			err = plainFlagError(err)
		}
		return fmt.Errorf("%w\nSee '%s --help' for usage.", err, cmd.CommandPath())
	})

	flags := root.PersistentFlags()
	strict := flags.Bool("warnings-as-errors", false, "Treat warnings received from the server as errors and exit with a non-zero exit code")
	root.PersistentPostRunE = func(*cobra.Command, []string) error {
		if n := warnings.WarningCount(); *strict && n > 0 {
			return fmt.Errorf("%d warnings received", n)
		}
		return nil
	}
	env.Target.AddFlags(flags)
	version := cmdutil.NewMatchVersionFlags(env.Target)
	version.AddFlags(flags)
	env.Factory = cmdutil.NewFactory(version)
	preferRunningPods()
	completion.SetFactoryForCompletion(env.Factory)
	completeGlobal(root, env)
	env.Target.verb = firstVerb(args[1:], flags)
	addVerbs(root, env, env.Target.verb)
	return root
}

// ownFlagsOnly returns cobra's template of help with a reference to the verb options in place of the global flags, which
// would not fit on a screen together with the verb's flags.
func ownFlagsOnly(template string) string {
	const global = "Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}"
	return strings.Replace(template, global, `Use "{{.Root.CommandPath}} options" for the global flags, --name and --namespace among them.`, 1)
}

// firstVerb returns the first argument that is no flag and no flag's value.
func firstVerb(args []string, flags *pflag.FlagSet) string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") {
			return a
		}
		var f *pflag.Flag
		switch {
		case strings.Contains(a, "="):
		case strings.HasPrefix(a, "--"):
			f = flags.Lookup(a[2:])
		case len(a) == 2:
			f = flags.ShorthandLookup(a[1:])
		}
		if f != nil && f.NoOptDefVal == "" {
			i++
		}
	}
	return ""
}
