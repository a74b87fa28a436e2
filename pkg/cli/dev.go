package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/daemon"
	"github.com/minikctl/minikctl/pkg/dev"
)

// devVerb is the verb dev. It applies manifests as the verb apply does.
type devVerb struct {
	*applyVerb
	images   map[string]string
	watch    []string
	ignore   []string
	timeout  time.Duration
	renderer dev.Renderer
}

func newDev(env *Env) *cobra.Command {
	d := &devVerb{applyVerb: newApplyVerb(env)}
	d.replace = dev.Outdated
	var files resource.FilenameOptions
	cmd := &cobra.Command{
		Use:   "dev (-f FILENAME | -k DIRECTORY) -- BUILD [ARGS...]",
		Short: "Build a program, run it by its manifests, and do so again at every save",
		Long: `Build a program, apply the manifests that run it, and wait until their objects are ready. Whenever a source file changes, build again
and restart the pods whose program or directory differs; all others stay. A failed build leaves the pods as they are.

A pod runs the program of this machine if --image or the cluster's config maps its image to it, or if its command is an absolute path. Ctrl-C
ends the loop; the pods stay. The program's output is in minikctl logs.`,
		Example: `  # Build ./cmd/cart into bin/cart, which replaces the image shop/cart
  minikctl dev -f cart.yaml --image shop/cart=bin/cart -- go build -o bin/cart ./cmd/cart

  # Serve a directory in place of the image site, and build it at every save in src
  minikctl dev -f site.yaml --image site=public --watch src -- npm run build`,
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&files.Filenames, "filename", "f", nil, "The files that contain the manifests to apply; they are watched, too.")
	flags.StringVarP(&files.Kustomize, "kustomize", "k", "", "Process a kustomization directory.")
	flags.BoolVarP(&files.Recursive, "recursive", "R", false, "Process the directory used in -f, --filename recursively.")
	flags.StringToStringVar(&d.images, "image", nil, "NAME=PATH: run this program, or serve this directory, in place of an image. Can be given several times.")
	flags.StringSliceVar(&d.watch, "watch", nil, "The directories and files with the sources (default the current directory). Hidden files and node_modules are left out.")
	flags.StringSliceVar(&d.ignore, "ignore", nil, "Patterns of names of files and directories that are no sources, for example '*.log'.")
	flags.DurationVar(&d.timeout, "timeout", 0, "How long to wait for the pods after each build; 0 means without limit.")
	cmd.RunE = func(cmd *cobra.Command, build []string) error { return d.run(cmd, files, build) }
	return cmd
}

func (d *devVerb) run(cmd *cobra.Command, files resource.FilenameOptions, build []string) error {
	if err := files.RequireFilenameOrKustomize(); err != nil {
		return err
	}
	if len(build) == 0 || cmd.ArgsLenAtDash() != 0 {
		return cmdutil.UsageErrorf(cmd, "the build is needed after --, e.g. -- go build -o bin/app .")
	}
	loop, err := d.loop(files, build)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	*d.flags.DeleteFlags.Timeout = d.timeout
	return loop.Run(ctx)
}

func (d *devVerb) loop(files resource.FilenameOptions, build []string) (*dev.Loop, error) {
	watch := d.watch
	if len(watch) == 0 {
		watch = []string{"."}
	}
	for _, name := range append(files.Filenames, files.Kustomize) {
		if name != "" && name != "-" && !strings.Contains(name, "://") {
			watch = append(watch, name)
		}
	}
	l := &dev.Loop{Build: build, Ignore: d.ignore, Stdout: d.Out, Stderr: d.Err, Clock: clock.Real()}
	for _, path := range watch {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the path %q does not exist", path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		l.Watch = append(l.Watch, path)
	}
	images := map[string]string{}
	for name, path := range d.images {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		images[name] = path
	}
	d.renderer = dev.Renderer{Images: images}
	l.Built = func() []string {
		built := d.renderer.Files()
		for _, path := range images {
			built = append(built, path)
		}
		return built
	}
	l.Deploy = func(ctx context.Context) (time.Time, error) { return d.deploy(ctx, files) }
	return l, nil
}

// deploy applies the manifests, waits for their objects, and returns when the last one became ready.
func (d *devVerb) deploy(ctx context.Context, files resource.FilenameOptions) (time.Time, error) {
	infos, err := d.load(files)
	if err != nil {
		return time.Time{}, err
	}
	if err := d.render(infos); err != nil {
		return time.Time{}, err
	}
	if err := d.applyAll(ctx, infos); err != nil {
		return time.Time{}, err
	}
	return d.wait(ctx, infos)
}

func (d *devVerb) render(infos []*resource.Info) error {
	if err := d.resolveByConfig(); err != nil {
		return err
	}
	for _, info := range infos {
		if u, ok := info.Object.(*unstructured.Unstructured); ok {
			if err := d.renderer.Render(u); err != nil {
				return fmt.Errorf("%s: %w", info.Source, err)
			}
		}
	}
	switch {
	case len(d.renderer.Unused()) > 0:
		return fmt.Errorf("--image: no manifest has the image %s", strings.Join(d.renderer.Unused(), ", "))
	case len(d.renderer.Files()) == 0:
		return errors.New("no pod of the manifests runs a program or a directory of this machine: say which one replaces an image with --image NAME=PATH")
	}
	return nil
}

// resolveByConfig has the renderer follow the images map of a local cluster's config.
func (d *devVerb) resolveByConfig() error {
	if !d.Target.local() {
		return nil
	}
	if err := d.Target.ready(); err != nil { // the cluster's first start writes its settings
		return err
	}
	store, err := daemon.Images(d.Target.Paths())
	if err != nil {
		return err
	}
	d.renderer.Resolve = store.Resolve
	return nil
}
