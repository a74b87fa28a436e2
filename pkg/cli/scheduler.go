package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func newScheduler(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Show and validate the scheduler's configuration, and list its plugins",
		Long: `Show the configuration that the scheduler runs, list the plugins that it knows, and validate a configuration before the
scheduler reads it. The configuration is a KubeSchedulerConfiguration, the file of "minikctl up --scheduler-config".`,
		Args: cobra.NoArgs,
		RunE: help,
	}
	cmd.AddCommand(newSchedulerConfig(env), newSchedulerProfiles(env), newSchedulerPlugins(env), newSchedulerValidate(env))
	return cmd
}

func newSchedulerConfig(env *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration that runs, with all defaults filled in",
		Long: `Show the configuration that runs: its generation, the file that it was read from, why the file's present content is refused
if it is, and the KubeSchedulerConfiguration with all plugins and arguments. A scheduler with the output as its file runs
the same. The same records: minikctl get schedulerconfigs.minikctl.dev`,
		Args: arguments("", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := schedulerConfigs(cmd.Context(), env)
			if err != nil {
				return err
			}
			if output != "" {
				return printAs(env, output, list)
			}
			for i := range list.Items {
				if i > 0 {
					fmt.Fprintln(env.Out, "---")
				}
				if err := printSchedulerConfig(env, &list.Items[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addOutput(cmd, &output, "text", "json", "yaml")
	return cmd
}

// printAs writes a value as JSON or, in any other format, as YAML.
func printAs(env *Env, format string, value any) error {
	if format == "json" {
		e := json.NewEncoder(env.Out)
		e.SetIndent("", "  ")
		return e.Encode(value)
	}
	b, err := yaml.Marshal(value)
	if err == nil {
		_, err = env.Out.Write(b)
	}
	return err
}

// schedulerConfigs returns the configurations of the cluster's schedulers.
func schedulerConfigs(ctx context.Context, env *Env) (*minikctl.SchedulerConfigList, error) {
	list := &minikctl.SchedulerConfigList{}
	if err := getVirtual(ctx, env, "", minikctl.SchedulerConfigs.Resource, "", list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no scheduler has reported its configuration to this cluster")
	}
	return list, nil
}

// printSchedulerConfig writes a configuration as YAML. What else is to say about it is in comments.
func printSchedulerConfig(env *Env, c *minikctl.SchedulerConfig) error {
	from := "the defaults"
	if c.File != "" {
		from = c.File
	}
	fmt.Fprintf(env.Out, "# generation %d: %s, in force for %s\n", c.Generation, from, duration.HumanDuration(env.Now().Sub(c.Applied.Time)))
	if c.Refused != "" {
		fmt.Fprintln(env.Out, "# the file as it is now is refused:")
		for _, line := range strings.Split(c.Refused, "\n") {
			fmt.Fprintln(env.Out, "#   "+line)
		}
	}
	b, err := yaml.JSONToYAML(c.Configuration.Raw)
	if err == nil {
		_, err = env.Out.Write(b)
	}
	return err
}

func newSchedulerProfiles(env *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "profiles [FILE]",
		Short: "Show the plugins of each profile at each extension point, in the order of their calls",
		Long: `Show the plugins of each profile at each extension point, in the order of their calls, with their weights: of the
configuration that runs, or of a file, which needs no cluster.`,
		Args: arguments("", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			configs, err := configsOf(cmd.Context(), env, first(args))
			if err != nil {
				return err
			}
			var profiles []scheduler.ProfileInfo
			for _, c := range configs {
				i, err := scheduler.Inspect(cmd.Context(), env.Plugins, c)
				if err != nil {
					return configError(first(args), err)
				}
				profiles = append(profiles, i.Profiles...)
			}
			if output != "" {
				return printAs(env, output, profiles)
			}
			return printProfiles(env, profiles)
		},
	}
	addOutput(cmd, &output, "text", "json", "yaml")
	return cmd
}

// configsOf returns the configuration of a file, or those that run if file is "".
func configsOf(ctx context.Context, env *Env, file string) ([]*configv1.KubeSchedulerConfiguration, error) {
	if file != "" {
		c, err := scheduler.ReadConfig(file)
		return []*configv1.KubeSchedulerConfiguration{c}, err
	}
	list, err := schedulerConfigs(ctx, env)
	if err != nil {
		return nil, err
	}
	var out []*configv1.KubeSchedulerConfiguration
	for _, item := range list.Items {
		c := &configv1.KubeSchedulerConfiguration{}
		if err := json.Unmarshal(item.Configuration.Raw, c); err != nil {
			return nil, fmt.Errorf("configuration of scheduler %s: %w", item.Name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func printProfiles(env *Env, profiles []scheduler.ProfileInfo) error {
	headers := []string{"PROFILE", "POINT", "PLUGINS"}
	var rows [][]string
	for _, p := range profiles {
		for _, at := range p.Points {
			var plugins []string
			for _, x := range at.Plugins {
				name := x.Name
				if x.Weight != 0 {
					name = fmt.Sprintf("%s×%d", name, x.Weight)
				}
				plugins = append(plugins, name)
			}
			rows = append(rows, []string{p.Name, at.Name, strings.Join(plugins, " ")})
		}
	}
	return printRows(env, headers, rows)
}

// printRows writes a table that fits the terminal.
func printRows(env *Env, headers []string, rows [][]string) error {
	t := newTable(env.Out, headers...)
	for _, row := range fit(rows, headers, widthOf(env.Out)) {
		if err := t.Append(row); err != nil {
			return err
		}
	}
	return t.Render()
}

func newSchedulerPlugins(env *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "List the plugins of this program with their extension points and default arguments",
		Long: `List the plugins of this program: their extension points, whether a profile without configuration has them and with which
weight, and their default arguments. This needs no cluster.`,
		Args: arguments("", 0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			plugins, err := scheduler.ListPlugins(cmd.Context(), env.Plugins)
			if err != nil {
				return err
			}
			if output != "" {
				return printAs(env, output, plugins)
			}
			var rows [][]string
			for _, p := range plugins {
				name, enabled := p.Name, "no"
				if p.Instances {
					name += "[/INSTANCE]"
				}
				if p.Default {
					enabled = "yes"
				}
				if p.Weight != 0 {
					enabled = fmt.Sprintf("weight %d", p.Weight)
				}
				rows = append(rows, []string{name, enabled, cmp.Or(strings.Join(p.Points, " "), p.Error), string(p.Args)})
			}
			return printRows(env, []string{"NAME", "DEFAULT", "POINTS", "ARGS"}, rows)
		},
	}
	addOutput(cmd, &output, "text", "json", "yaml")
	return cmd
}

func newSchedulerValidate(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Validate KubeSchedulerConfiguration files as the scheduler does",
		Long: `Validate KubeSchedulerConfiguration files as the scheduler does when it reads them: its plugins are created with their arguments,
and expressions are compiled. This needs no cluster. All errors are listed, each with the path of the field.`,
		Args: arguments("a FILE", 1, -1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var errs []error
			for _, file := range files {
				names, err := validateConfig(cmd.Context(), env, file)
				if err != nil {
					errs = append(errs, configError(file, err))
					continue
				}
				fmt.Fprintf(env.Out, "%s: valid, with the profiles %s\n", file, strings.Join(names, ", "))
			}
			return errors.Join(errs...)
		},
	}
}

// validateConfig returns the names of a file's profiles.
func validateConfig(ctx context.Context, env *Env, file string) ([]string, error) {
	c, err := scheduler.ReadConfig(file)
	if err != nil {
		return nil, err
	}
	i, err := scheduler.Inspect(ctx, env.Plugins, c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range i.Profiles {
		names = append(names, p.Name)
	}
	return names, nil
}

// configError returns the errors of a configuration, one a line.
func configError(file string, err error) error {
	if _, list := errors.AsType[utilerrors.Aggregate](err); !list || file == "" {
		return err
	}
	return scheduler.ConfigError(file, err)
}
