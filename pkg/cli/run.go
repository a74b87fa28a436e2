package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubectl "k8s.io/kubectl/pkg/cmd/run"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/generate"
)

// newRun returns kubectl's run with the flag --replicas, which creates a Deployment instead of a pod, as kubectl did before
// v1.18.
func newRun(env *Env) *cobra.Command {
	cmd := kubectl.NewCmdRun(env.Factory, env.Streams())
	pod := cmd.Run
	var replicas int32
	cmd.Flags().Int32VarP(&replicas, "replicas", "r", 0, "Create a Deployment with this number of replicas instead of a pod. Deprecated: use create deployment --replicas.")
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("replicas") {
			if dryRun, err := cmdutil.GetDryRunStrategy(cmd); err == nil && dryRun == cmdutil.DryRunNone && len(args) > 0 && attaches(cmd) {
				return runAttached(cmd, env, args, func() { pod(cmd, args) })
			}
			pod(cmd, args)
			return nil
		}
		fmt.Fprintln(env.Err, "run --replicas makes a Deployment and is deprecated: use create deployment --replicas instead")
		return runDeployment(cmd, env, args, replicas)
	}
	return cmd
}

func runDeployment(cmd *cobra.Command, env *Env, args []string, replicas int32) error {
	if len(args) == 0 {
		return cmdutil.UsageErrorf(cmd, "NAME is required for run")
	}
	image := cmdutil.GetFlagString(cmd, "image")
	if image == "" {
		return fmt.Errorf("required flag(s) \"image\" not set")
	}
	dryRun, err := cmdutil.GetDryRunStrategy(cmd)
	if err != nil {
		return err
	}
	d, err := deployment(cmd, args, image, replicas)
	if err != nil {
		return err
	}
	namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if dryRun != cmdutil.DryRunClient {
		clients, err := env.Factory.KubernetesClientSet()
		if err != nil {
			return err
		}
		opts := metav1.CreateOptions{FieldManager: "kubectl-run"}
		if dryRun == cmdutil.DryRunServer {
			opts.DryRun = []string{metav1.DryRunAll}
		}
		if d, err = clients.AppsV1().Deployments(namespace).Create(cmd.Context(), d, opts); err != nil {
			return err
		}
	}
	suffix := map[cmdutil.DryRunStrategy]string{cmdutil.DryRunClient: " (dry run)", cmdutil.DryRunServer: " (server dry run)"}[dryRun]
	fmt.Fprintf(env.Out, "deployment.apps/%s created%s\n", d.Name, suffix)
	return nil
}

// deployment returns a Deployment whose template has the values of run's flags.
func deployment(cmd *cobra.Command, args []string, image string, replicas int32) (*appsv1.Deployment, error) {
	name := args[0]
	labels := map[string]string{"run": name}
	if l := cmdutil.GetFlagString(cmd, "labels"); l != "" {
		parsed, err := generate.ParseLabels(l)
		if err != nil {
			return nil, err
		}
		labels = parsed
	}
	c := corev1.Container{Name: name, Image: image, ImagePullPolicy: corev1.PullPolicy(cmdutil.GetFlagString(cmd, "image-pull-policy"))}
	if cmdutil.GetFlagBool(cmd, "command") {
		c.Command = args[1:]
	} else {
		c.Args = args[1:]
	}
	if port := cmdutil.GetFlagString(cmd, "port"); port != "" {
		n, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("invalid port %q: %w", port, err)
		}
		c.Ports = []corev1.ContainerPort{{ContainerPort: int32(n)}}
	}
	for _, e := range cmdutil.GetFlagStringArray(cmd, "env") {
		key, value, ok := strings.Cut(e, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("invalid env: %s", e)
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: key, Value: value})
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}},
		},
	}, nil
}
