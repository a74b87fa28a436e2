package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/minikctl/minikctl/pkg/daemon"
)

func newStore(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Check, back up and restore a cluster's store",
		Long: `Check, back up and restore the store of a cluster on this machine, which holds all its objects.

A cluster whose store is damaged does not start, and its files stay as they are. Backups at an interval are a setting of the
cluster: "backup" in its config file.`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	var dataDir string
	cmd.PersistentFlags().StringVar(&dataDir, "data-dir", "", "directory that holds the cluster's data (default ~/.minikctl/NAME)")
	paths := func() (daemon.Paths, error) {
		if err := daemon.CheckName(env.Target.name); err != nil {
			return daemon.Paths{}, err
		}
		if dataDir != "" {
			return daemon.PathsIn(env.Target.name, dataDir), nil
		}
		return env.Target.Paths(), nil
	}
	cmd.AddCommand(newStoreCheck(env, paths), newStoreBackup(env, paths), newStoreRestore(env, paths))
	return cmd
}

func newStoreCheck(env *Env, paths func() (daemon.Paths, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Verify the store of a cluster that does not run",
		Long: `Verify the files of the store, compare its objects with what was acknowledged, and read each object. Objects that can't be
read are listed. Nothing is changed.`,
		Args: arguments("", 0, 0),
		RunE: func(*cobra.Command, []string) error {
			p, err := paths()
			if err != nil {
				return err
			}
			report, err := daemon.CheckStore(p)
			if err != nil {
				return err
			}
			for _, d := range report.Damaged {
				fmt.Fprintf(env.Out, "%s: %v\n", d.Key, d.Err)
			}
			if n := len(report.Damaged); n > 0 {
				return fmt.Errorf("%d of %d objects can't be read", n, report.Objects)
			}
			fmt.Fprintf(env.Out, "minikctl: the store of %q is whole: %d objects at revision %d\n", p.Name, report.Objects, report.Revision)
			return nil
		},
	}
}

func newStoreBackup(env *Env, paths func() (daemon.Paths, error)) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Write all objects to a file, also while the cluster runs",
		Long: `Write all objects of one instant to a file, also while the cluster runs. Without FILE it is a new file in the directory
"backups" of the cluster's data. The file holds the cluster's Secrets. A file that exists is only overwritten with --force. The directory
of FILE must exist.`,
		Args: arguments("", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := paths()
			if err != nil {
				return err
			}
			sum, file, err := daemon.BackupStore(cmd.Context(), p, first(args), force, env.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Out, "minikctl: %d objects at revision %d are in %s\n", sum.Objects, sum.Revision, file)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite FILE")
	return cmd
}

func newStoreRestore(env *Env, paths func() (daemon.Paths, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Replace the store of a cluster that does not run by a backup",
		Long: `Replace the store by a backup, by default the newest in the directory "backups" of the cluster's data. The store that was
there is kept in a directory beside it. Clients list all objects again, since the revisions before the restore are gone.`,
		Args: arguments("", 0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := paths()
			if err != nil {
				return err
			}
			sum, file, kept, err := daemon.RestoreStore(p, first(args))
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Out, "minikctl: %d objects of %s are restored\n", sum.Objects, file)
			if kept != "" {
				fmt.Fprintf(env.Out, "minikctl: the store that was there is in %s\n", kept)
			}
			return nil
		},
	}
}

// first returns the first argument, "" without one.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
