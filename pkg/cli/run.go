package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	kubectl "k8s.io/kubectl/pkg/cmd/run"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/generate"

	"github.com/minikctl/minikctl/pkg/images"
)

// newRun returns kubectl's run with the flags --replicas and --generator, which create a Deployment or a ReplicationController instead of
// a pod, as kubectl did before v1.18.
func newRun(env *Env) *cobra.Command {
	cmd := newKubectlRun(env, env.Streams())
	pod := cmd.Run
	var replicas int32
	var generator string
	cmd.Flags().Int32VarP(&replicas, "replicas", "r", 1, "Create a Deployment with this number of replicas instead of a pod. Deprecated: use create deployment --replicas.")
	cmd.Flags().StringVar(&generator, "generator", "", "Create what this generator of earlier versions did: "+strings.Join(generators(), ", ")+". Deprecated: use create.")
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		create, err := creatorOf(generator, cmd.Flags().Changed("replicas"))
		if err != nil {
			return err
		}
		if create == nil {
			if dryRun, err := cmdutil.GetDryRunStrategy(cmd); err == nil && dryRun == cmdutil.DryRunNone && len(args) > 0 && attaches(cmd) {
				return runAttached(cmd, env, args, func() { pod(cmd, args) })
			}
			pod(cmd, args)
			return nil
		}
		fmt.Fprintf(env.Err, "run makes a %s and is deprecated: use create deployment --replicas instead\n", create.kind)
		return runWorkload(cmd, env, args, create.of(replicas))
	}
	return cmd
}

// newKubectlRun returns kubectl's run, which accepts also the directories of this machine as images.
func newKubectlRun(env *Env, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := kubectl.NewCmdRun(env.Factory, streams)
	image := cmd.Flags().Lookup("image")
	image.Value = &imageValue{Value: image.Value}
	return cmd
}

// imageValue is the value of run's flag --image. kubectl's run checks its own variable for a valid image reference, which the name of
// a directory is not, and makes the pod from the flag's value. The variable of a directory is therefore another, valid name.
type imageValue struct {
	pflag.Value
	directory string // the flag's value if it names a directory
}

func (v *imageValue) Set(image string) error {
	v.directory = ""
	if strings.HasPrefix(image, images.DirPrefix+"/") {
		v.directory, image = image, "directory"
	}
	return v.Value.Set(image)
}

func (v *imageValue) String() string {
	if v.directory != "" {
		return v.directory
	}
	return v.Value.String()
}

// creator creates a workload whose pods have a template.
type creator struct {
	kind   string
	create func(context.Context, kubernetes.Interface, workload, metav1.CreateOptions) error
	output string // what the created object is called
}

// workload is what run creates.
type workload struct {
	creator
	replicas  int32
	namespace string
	template  corev1.PodTemplateSpec // also has the name
}

func (c creator) of(replicas int32) workload { return workload{creator: c, replicas: replicas} }

const podGenerator = "run-pod/v1"

// creators returns what the generators of earlier versions of kubectl create.
func creators() map[string]creator {
	d := creator{"Deployment", createDeployment, "deployment.apps"}
	return map[string]creator{
		"run/v1": {"ReplicationController", createController, "replicationcontroller"}, "deployment/v1beta1": d, "deployment/apps.v1beta1": d, "deployment/apps.v1": d,
	}
}

func generators() []string {
	return append(slices.Sorted(maps.Keys(creators())), podGenerator)
}

// creatorOf returns what the flags ask for, nil for a pod.
func creatorOf(generator string, replicas bool) (*creator, error) {
	switch {
	case generator == "" && replicas:
		generator = "deployment/apps.v1"
	case generator == "" || generator == podGenerator && !replicas:
		return nil, nil //nolint:nilnil // a pod is no error
	}
	c, ok := creators()[generator]
	if !ok {
		return nil, fmt.Errorf("generator %q not found", generator)
	}
	return &c, nil
}

func runWorkload(cmd *cobra.Command, env *Env, args []string, w workload) error {
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
	if w.template, err = template(cmd, args, image); err != nil {
		return err
	}
	if w.namespace, _, err = env.Factory.ToRawKubeConfigLoader().Namespace(); err != nil {
		return err
	}
	expose := cmdutil.GetFlagBool(cmd, "expose")
	if expose && len(w.template.Spec.Containers[0].Ports) == 0 {
		return cmdutil.UsageErrorf(cmd, "--port must be set when exposing a service")
	}
	opts := metav1.CreateOptions{FieldManager: "kubectl-run"}
	if dryRun == cmdutil.DryRunServer {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	create := func(name string, object func(context.Context, kubernetes.Interface, workload, metav1.CreateOptions) error) error {
		if dryRun != cmdutil.DryRunClient {
			clients, err := env.Factory.KubernetesClientSet()
			if err != nil {
				return err
			}
			if err := object(cmd.Context(), clients, w, opts); err != nil {
				return err
			}
		}
		suffix := map[cmdutil.DryRunStrategy]string{cmdutil.DryRunClient: " (dry run)", cmdutil.DryRunServer: " (server dry run)"}[dryRun]
		fmt.Fprintf(env.Out, "%s/%s created%s\n", name, w.template.Name, suffix)
		return nil
	}
	if err := create(w.output, w.create); err != nil || !expose {
		return err
	}
	return create("service", createService)
}

func createDeployment(ctx context.Context, clients kubernetes.Interface, w workload, opts metav1.CreateOptions) error {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.template.Name, Labels: w.template.Labels},
		Spec:       appsv1.DeploymentSpec{Replicas: &w.replicas, Selector: &metav1.LabelSelector{MatchLabels: w.template.Labels}, Template: w.pods()},
	}
	_, err := clients.AppsV1().Deployments(w.namespace).Create(ctx, d, opts)
	return err
}

func createController(ctx context.Context, clients kubernetes.Interface, w workload, opts metav1.CreateOptions) error {
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: w.template.Name, Labels: w.template.Labels},
		Spec:       corev1.ReplicationControllerSpec{Replicas: &w.replicas, Selector: w.template.Labels, Template: new(w.pods())},
	}
	_, err := clients.CoreV1().ReplicationControllers(w.namespace).Create(ctx, rc, opts)
	return err
}

func createService(ctx context.Context, clients kubernetes.Interface, w workload, opts metav1.CreateOptions) error {
	port := w.template.Spec.Containers[0].Ports[0].ContainerPort
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: w.template.Name},
		Spec:       corev1.ServiceSpec{Selector: w.template.Labels, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)}}},
	}
	_, err := clients.CoreV1().Services(w.namespace).Create(ctx, s, opts)
	return err
}

// pods returns the template without the name.
func (w workload) pods() corev1.PodTemplateSpec {
	w.template.Name = ""
	return w.template
}

// template returns a template with the values of run's flags and the name of the workload.
func template(cmd *cobra.Command, args []string, image string) (corev1.PodTemplateSpec, error) {
	name := args[0]
	labels := map[string]string{"run": name}
	if l := cmdutil.GetFlagString(cmd, "labels"); l != "" {
		parsed, err := generate.ParseLabels(l)
		if err != nil {
			return corev1.PodTemplateSpec{}, err
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
			return corev1.PodTemplateSpec{}, fmt.Errorf("invalid port %q: %w", port, err)
		}
		c.Ports = []corev1.ContainerPort{{ContainerPort: int32(n)}}
	}
	for _, e := range cmdutil.GetFlagStringArray(cmd, "env") {
		key, value, ok := strings.Cut(e, "=")
		if !ok || key == "" {
			return corev1.PodTemplateSpec{}, fmt.Errorf("invalid env: %s", e)
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: key, Value: value})
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}, nil
}
