package schedplugins

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// imageLocality prefers nodes that have the pod's images already, weighted by size. An image counts less when few nodes
// have it, so that pods don't all go to these nodes.
type imageLocality struct {
	cooperative
	local
	handle framework.Handle
}

func newImageLocality(h framework.Handle) framework.Plugin { return imageLocality{handle: h} }

func (imageLocality) Name() string { return "ImageLocality" }

// The score is zero up to the first sum of sizes, and the maximum from the second one on, which is multiplied by the
// number of containers.
const (
	leastImage = 23 << 20
	mostImage  = 1000 << 20
)

func (p imageLocality) Score(_ context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	states := node.GetImageStates()
	containers := int64(len(pod.Spec.InitContainers) + len(pod.Spec.Containers))
	if len(states) == 0 || containers == 0 {
		return 0, nil
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	var sum int64
	eachImage(pod, func(image string) {
		if s, ok := states[fullName(image)]; ok {
			sum += int64(float64(s.Size) * float64(s.NumNodes) / float64(len(nodes)))
		}
	})
	most := int64(mostImage) * containers
	sum = min(max(sum, leastImage), most)
	return framework.MaxScore * (sum - leastImage) / (most - leastImage), nil
}

func eachImage(pod *corev1.Pod, f func(image string)) {
	for i := range pod.Spec.InitContainers {
		f(pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		f(pod.Spec.Containers[i].Image)
	}
}

// fullName adds the default tag to an image name without a tag.
func fullName(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}

func (imageLocality) ScoreExtensions() framework.ScoreExtensions { return nil }

func (imageLocality) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	images := []string{}
	eachImage(pod, func(image string) { images = append(images, fullName(image)) })
	return signature(framework.ImageNamesSignerName, images)
}
