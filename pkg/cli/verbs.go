package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apiresources"
	"k8s.io/kubectl/pkg/cmd/attach"
	"k8s.io/kubectl/pkg/cmd/auth"
	"k8s.io/kubectl/pkg/cmd/autoscale"
	"k8s.io/kubectl/pkg/cmd/certificates"
	"k8s.io/kubectl/pkg/cmd/clusterinfo"
	"k8s.io/kubectl/pkg/cmd/completion"
	"k8s.io/kubectl/pkg/cmd/config"
	"k8s.io/kubectl/pkg/cmd/cp"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/debug"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/cmd/diff"
	"k8s.io/kubectl/pkg/cmd/drain"
	"k8s.io/kubectl/pkg/cmd/edit"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/exec"
	"k8s.io/kubectl/pkg/cmd/explain"
	"k8s.io/kubectl/pkg/cmd/expose"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/kustomize"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/options"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/plugin"
	"k8s.io/kubectl/pkg/cmd/portforward"
	"k8s.io/kubectl/pkg/cmd/proxy"
	"k8s.io/kubectl/pkg/cmd/replace"
	"k8s.io/kubectl/pkg/cmd/scale"
	"k8s.io/kubectl/pkg/cmd/set"
	"k8s.io/kubectl/pkg/cmd/taint"
	"k8s.io/kubectl/pkg/cmd/top"
	"k8s.io/kubectl/pkg/cmd/wait"
	utilcomp "k8s.io/kubectl/pkg/util/completion"
)

// verb is an entry of verbs; make creates its command.
type verb struct {
	name  string
	group string
	make  func(env *Env) *cobra.Command
}

// The groups of help.
const (
	groupCluster = "cluster"
	groupApps    = "apps"
	groupLook    = "look"
	groupChange  = "change"
	groupOther   = "other"
)

var groups = []cobra.Group{
	{ID: groupCluster, Title: "The cluster:"},
	{ID: groupApps, Title: "Run things:"},
	{ID: groupLook, Title: "Look and debug:"},
	{ID: groupChange, Title: "Change things:"},
	{ID: groupOther, Title: "Settings and the rest:"},
}

// verbs are all verbs. Those without a file here are kubectl's.
var verbs = []verb{
	{"up", groupCluster, newUp},
	{"down", groupCluster, newDown},
	{"status", groupCluster, newStatus},
	{"store", groupCluster, newStore},
	{"scheduler", groupCluster, newScheduler},
	{"schedule", groupCluster, newSchedule},
	{"clock", groupCluster, newClock},
	{"cluster-info", groupCluster, func(e *Env) *cobra.Command { return clusterinfo.NewCmdClusterInfo(e.Factory, e.Streams()) }},
	{"cordon", groupCluster, func(e *Env) *cobra.Command { return drain.NewCmdCordon(e.Factory, e.Streams()) }},
	{"uncordon", groupCluster, func(e *Env) *cobra.Command { return drain.NewCmdUncordon(e.Factory, e.Streams()) }},
	{"drain", groupCluster, func(e *Env) *cobra.Command { return drain.NewCmdDrain(e.Factory, e.Streams()) }},
	{"taint", groupCluster, func(e *Env) *cobra.Command { return taint.NewCmdTaint(e.Factory, e.Streams()) }},
	{"top", groupCluster, func(e *Env) *cobra.Command { return top.NewCmdTop(e.Factory, e.Streams()) }},
	{"certificate", groupCluster, func(e *Env) *cobra.Command { return certificates.NewCmdCertificate(e.Factory, e.Streams()) }},

	{"apply", groupApps, newApply},
	{"dev", groupApps, newDev},
	{"run", groupApps, newRun},
	{"create", groupApps, func(e *Env) *cobra.Command { return create.NewCmdCreate(e.Factory, e.Streams()) }},
	{"expose", groupApps, func(e *Env) *cobra.Command { return expose.NewCmdExposeService(e.Factory, e.Streams()) }},
	{"rollout", groupApps, newRollout},
	{"scale", groupApps, func(e *Env) *cobra.Command { return scale.NewCmdScale(e.Factory, e.Streams()) }},
	{"autoscale", groupApps, func(e *Env) *cobra.Command { return autoscale.NewCmdAutoscale(e.Factory, e.Streams()) }},
	{"wait", groupApps, func(e *Env) *cobra.Command { return wait.NewCmdWait(e.Factory, e.Streams()) }},

	{"get", groupLook, newGet},
	{"describe", groupLook, func(e *Env) *cobra.Command { return describe.NewCmdDescribe("minikctl", e.Factory, e.Streams()) }},
	{"trace", groupLook, newTrace},
	{"why", groupLook, newWhy},
	{"service", groupLook, newService},
	{"logs", groupLook, newLogs},
	{"events", groupLook, func(e *Env) *cobra.Command { return events.NewCmdEvents(e.Factory, e.Streams()) }},
	{"exec", groupLook, func(e *Env) *cobra.Command { return exec.NewCmdExec(e.Factory, e.Streams()) }},
	{"attach", groupLook, func(e *Env) *cobra.Command { return attach.NewCmdAttach(e.Factory, e.Streams()) }},
	{"port-forward", groupLook, func(e *Env) *cobra.Command { return portforward.NewCmdPortForward(e.Factory, e.Streams()) }},
	{"proxy", groupLook, func(e *Env) *cobra.Command { return proxy.NewCmdProxy(e.Factory, e.Streams()) }},
	{"cp", groupLook, func(e *Env) *cobra.Command { return cp.NewCmdCp(e.Factory, e.Streams()) }},
	{"debug", groupLook, func(e *Env) *cobra.Command { return debug.NewCmdDebug(e.Factory, e.Streams()) }},
	{"diff", groupLook, func(e *Env) *cobra.Command { return diff.NewCmdDiff(e.Factory, e.Streams()) }},
	{"explain", groupLook, func(e *Env) *cobra.Command { return explain.NewCmdExplain("minikctl", e.Factory, e.Streams()) }},
	{"auth", groupLook, func(e *Env) *cobra.Command { return auth.NewCmdAuth(e.Factory, e.Streams()) }},

	{"edit", groupChange, func(e *Env) *cobra.Command { return edit.NewCmdEdit(e.Factory, e.Streams()) }},
	{"patch", groupChange, func(e *Env) *cobra.Command { return patch.NewCmdPatch(e.Factory, e.Streams()) }},
	{"replace", groupChange, func(e *Env) *cobra.Command { return replace.NewCmdReplace(e.Factory, e.Streams()) }},
	{"set", groupChange, func(e *Env) *cobra.Command { return set.NewCmdSet(e.Factory, e.Streams()) }},
	{"label", groupChange, func(e *Env) *cobra.Command { return label.NewCmdLabel(e.Factory, e.Streams()) }},
	{"annotate", groupChange, func(e *Env) *cobra.Command { return annotate.NewCmdAnnotate("minikctl", e.Factory, e.Streams()) }},
	{"delete", groupChange, func(e *Env) *cobra.Command { return delete.NewCmdDelete(e.Factory, e.Streams()) }},

	{"kustomize", groupOther, func(e *Env) *cobra.Command { return kustomize.NewCmdKustomize(e.Streams()) }},
	{"config", groupOther, func(e *Env) *cobra.Command {
		return config.NewCmdConfig(e.Factory, clientcmd.NewDefaultPathOptions(), e.Streams())
	}},
	{"api-resources", groupOther, func(e *Env) *cobra.Command { return apiresources.NewCmdAPIResources(e.Factory, e.Streams()) }},
	{"api-versions", groupOther, func(e *Env) *cobra.Command { return apiresources.NewCmdAPIVersions(e.Factory, e.Streams()) }},
	{"completion", groupOther, func(e *Env) *cobra.Command { return completion.NewCmdCompletion(e.Out, "") }},
	{"options", groupOther, func(e *Env) *cobra.Command { return options.NewCmdOptions(e.Out) }},
	{"plugin", groupOther, func(e *Env) *cobra.Command { return plugin.NewCmdPlugin(e.Streams()) }},
	{"version", groupOther, newVersion},
}

// newGet returns kubectl's get with the completion that kubectl's root command adds.
func newGet(e *Env) *cobra.Command {
	cmd := get.NewCmdGet("minikctl", e.Factory, e.Streams())
	cmd.ValidArgsFunction = utilcomp.ResourceTypeAndNameCompletionFunc(e.Factory)
	return cmd
}

// help prints the help of a command that has others: cobra checks the arguments of commands with a RunE only.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// addVerbs adds the verb with this name, or all verbs if no verb has it.
func addVerbs(root *cobra.Command, env *Env, name string) {
	for _, v := range verbs {
		if v.name == name {
			root.AddCommand(v.make(env))
			return
		}
	}
	for _, g := range groups {
		root.AddGroup(&g)
	}
	for _, v := range verbs {
		cmd := v.make(env)
		cmd.GroupID = v.group
		root.AddCommand(cmd)
	}
	root.SetHelpCommandGroupID(groupOther)
}
