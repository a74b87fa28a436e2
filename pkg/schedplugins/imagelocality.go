package schedplugins

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// imageLocality prefers nodes that have the pod's images already, the larger ones more, and discounts images that only
// few nodes have, so that pods don't all gather there.
type imageLocality struct {
	local
	handle framework.Handle
}

func newImageLocality(h framework.Handle) framework.Plugin { return imageLocality{handle: h} }

func (imageLocality) Name() string { return "ImageLocality" }

// Below the first sum an image counts nothing; from the second on, multiplied by the number of containers, no more.
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

// fullName adds the tag that is meant when an image names none.
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
