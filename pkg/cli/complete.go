package cli

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/minikctl/minikctl/pkg/daemon"
)

// complete has the shell complete the values of a command's flag.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // there is no such flag
	}
}

// completeGlobal completes the values of the global flags.
func completeGlobal(root *cobra.Command, env *Env) {
	complete(root, "namespace", completeNames(env, "namespaces"))
	complete(root, "context", completeConfig(env, func(c api.Config) iter.Seq[string] { return maps.Keys(c.Contexts) }))
	complete(root, "cluster", completeConfig(env, func(c api.Config) iter.Seq[string] { return maps.Keys(c.Clusters) }))
	complete(root, "user", completeConfig(env, func(c api.Config) iter.Seq[string] { return maps.Keys(c.AuthInfos) }))
	if root.PersistentFlags().Lookup("name") != nil {
		complete(root, "name", completeClusters)
	}
}

// completeConfig completes names of the user's kubeconfig, which is not that of the local daemon.
func completeConfig(env *Env, names func(api.Config) iter.Seq[string]) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		config, err := env.Target.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return startingWith(typed, names(config)), cobra.ShellCompDirectiveNoFileComp
	}
}

// startingWith returns the names that start with what is typed, in their order.
func startingWith(typed string, names iter.Seq[string]) []string {
	found := slices.Sorted(names)
	return slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, typed) })
}

// completeNames completes the names of a resource's objects.
func completeNames(env *Env, resource string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completion.CompGetResource(env.Factory, resource, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeClusters completes the names of this user's clusters.
func completeClusters(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	all, err := daemon.All()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return startingWith(typed, slices.Values(names)), cobra.ShellCompDirectiveNoFileComp
}
