package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"
	kubectl "k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/validation"

	"github.com/minikctl/minikctl/pkg/apply"
)

// applyVerb is the verb apply. It has all flags of kubectl's apply. Server-side apply and pruning run kubectl's code.
type applyVerb struct {
	*Env
	flags *kubectl.ApplyFlags
	cmd   *cobra.Command

	// replace reports whether an object is deleted and created instead of patched; nil: never.
	replace func(live, manifest runtime.Object) bool
}

func newApply(env *Env) *cobra.Command { return newApplyVerb(env).cmd }

func newApplyVerb(env *Env) *applyVerb {
	a := &applyVerb{Env: env, flags: kubectl.NewApplyFlags(env.Streams())}
	a.cmd = &cobra.Command{
		Use:   "apply (-f FILENAME | -k DIRECTORY)",
		Short: "Apply manifests: create missing objects and change those that differ",
		Long: `Apply manifests from files, directories, URLs or standard input, in JSON or YAML. Missing objects are created. Objects
that differ are changed by a three-way merge of what was applied last, the manifest, and what the cluster has. Objects that
others depend on (namespaces, service accounts, config) are applied first.`,
		Example: `  # Apply a deployment and see its pods come up
  minikctl apply -f deployment.yml --wait

  # A directory with its sub-directories, and standard input
  minikctl apply -R -f ./manifests
  cat pod.json | minikctl apply -f -

  # A kustomization
  minikctl apply -k ./overlays/dev`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args) },
	}
	a.flags.AddFlags(a.cmd)
	a.cmd.Flags().Lookup("wait").Usage = "Show the progress (as a live tree on a terminal) and wait until every object is ready and stays ready for a second. Fails when a pod can't start. With --prune also wait until pruned objects are gone."
	a.cmd.Flags().Lookup("timeout").Usage = "How long --wait waits before it fails; 0 means without limit."
	a.cmd.AddCommand(kubectl.NewCmdApplyViewLastApplied(env.Factory, env.Streams()), kubectl.NewCmdApplySetLastApplied(env.Factory, env.Streams()),
		kubectl.NewCmdApplyEditLastApplied(env.Factory, env.Streams()))
	return a
}

func (a *applyVerb) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return cmdutil.UsageErrorf(a.cmd, "Unexpected args: %v", args)
	}
	files := a.flags.DeleteFlags.FileNameFlags.ToOptions()
	if err := files.RequireFilenameOrKustomize(); err != nil {
		return err
	}
	infos, err := a.apply(ctx, files)
	if err != nil || !*a.flags.DeleteFlags.Wait {
		return err
	}
	_, err = a.wait(ctx, infos)
	return err
}

// apply applies the files and returns the live objects.
func (a *applyVerb) apply(ctx context.Context, files resource.FilenameOptions) ([]*resource.Info, error) {
	if cmdutil.GetServerSideApplyFlag(a.cmd) || a.flags.Prune || a.flags.ApplySetRef != "" || a.flags.Subresource != "" {
		o, err := a.flags.ToOptions(a.Factory, a.cmd, "minikctl", nil)
		if err == nil {
			err = o.Validate()
		}
		if err == nil {
			err = o.Run()
		}
		if err != nil {
			return nil, err
		}
		return o.GetObjects()
	}
	infos, err := a.load(files)
	if err != nil {
		return infos, err
	}
	return infos, a.applyAll(ctx, infos)
}

// load reads the files without requests about their kinds: a manifest may have a kind that another one defines.
func (a *applyVerb) load(files resource.FilenameOptions) ([]*resource.Info, error) {
	directive, err := cmdutil.GetValidationDirective(a.cmd)
	if err != nil {
		return nil, err
	}
	schema, err := a.Factory.Validator(directive)
	if err != nil {
		return nil, err
	}
	mapper, err := a.Factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	infos, err := a.Factory.NewBuilder().Local().Unstructured().Schema(servedKinds{schema, mapper}).ContinueOnError().FilenameParam(false, &files).
		LabelSelectorParam(a.flags.Selector).Flatten().Do().Infos()
	if err == nil && len(infos) == 0 {
		err = errors.New("no objects passed to apply")
	}
	apply.Sort(infos)
	return infos, err
}

// servedKinds validates manifests whose kinds the server has. Other kinds may be those of a definition among the manifests: the server validates
// such objects when they are applied. kubectl's validation would look for them in the OpenAPI v2 document, which the server makes in seconds.
type servedKinds struct {
	validation.Schema
	mapper meta.RESTMapper
}

func (s servedKinds) ValidateBytes(data []byte) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(data, &kind); err == nil && kind.Kind != "" {
		gvk := kind.GroupVersionKind()
		if _, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			return nil
		}
	}
	return s.Schema.ValidateBytes(data)
}

// applyAll applies all manifests, also after an error, and returns all errors.
func (a *applyVerb) applyAll(ctx context.Context, infos []*resource.Info) error {
	locator, err := a.locator()
	if err != nil {
		return err
	}
	dryRun, err := cmdutil.GetDryRunStrategy(a.cmd)
	if err != nil {
		return err
	}
	directive, err := cmdutil.GetValidationDirective(a.cmd)
	if err != nil {
		return err
	}
	applier := &apply.Applier{
		Manager: cmdutil.GetFieldManagerFlag(a.cmd), Validation: directive, Overwrite: a.flags.Overwrite, Force: *a.flags.DeleteFlags.Force,
		DryRun: dryRun == cmdutil.DryRunServer, Pretend: dryRun == cmdutil.DryRunClient,
		Replace: a.replace,
		Warn:    func(text string) { fmt.Fprintln(a.Err, "Warning:", text) },
	}
	var failed []error
	for _, info := range infos {
		if err := locator.Locate(ctx, info); err != nil {
			failed = append(failed, err)
			continue
		}
		outcome, err := applier.Apply(info)
		if err != nil {
			failed = append(failed, cmdutil.AddSourceToErr("applying", info.Source, err))
			continue
		}
		if dryRun == cmdutil.DryRunNone {
			locator.Applied(info)
		}
		if err := a.print(info, outcome, dryRun); err != nil {
			return err
		}
	}
	return utilerrors.NewAggregate(failed)
}

func (a *applyVerb) locator() (*apply.Locator, error) {
	mapper, err := a.Factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	namespace, enforce, err := a.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	place := resource.SetNamespace(namespace)
	if enforce {
		place = resource.RequireNamespace(namespace)
	}
	return &apply.Locator{
		Mapper: mapper, Place: place,
		Client: func(m *meta.RESTMapping) (resource.RESTClient, error) {
			return a.Factory.UnstructuredClientForMapping(m)
		},
	}, nil
}

func (a *applyVerb) print(info *resource.Info, outcome apply.Outcome, dryRun cmdutil.DryRunStrategy) error {
	a.flags.PrintFlags.NamePrintFlags.Operation = string(outcome)
	if err := a.flags.PrintFlags.Complete("%s"); err != nil {
		return err
	}
	cmdutil.PrintFlagsWithDryRunStrategy(a.flags.PrintFlags, dryRun)
	printer, err := a.flags.PrintFlags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(info.Object, a.Out)
}

// wait waits for all objects at most as long as --timeout (see waitFor).
func (a *applyVerb) wait(ctx context.Context, infos []*resource.Info) (time.Time, error) {
	return waitFor(ctx, a.Env, infos, *a.flags.DeleteFlags.Timeout)
}
