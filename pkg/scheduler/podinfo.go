package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kube-scheduler/framework"
)

// The requests that scores assume for a container without requests, so that such pods are spread, too.
var (
	defaultCPURequest    = *resource.NewMilliQuantity(100, resource.DecimalSI)
	defaultMemoryRequest = *resource.NewQuantity(200<<20, resource.BinarySI)
)

// podInfo is a pod with its computed requests and affinity terms. It is a framework.PodInfo.
type podInfo struct {
	pod      *corev1.Pod
	requests framework.PodResource

	affinity, anti                   []framework.AffinityTerm
	preferredAffinity, preferredAnti []framework.WeightedAffinityTerm

	affinityLabels []string // the label keys that the selectors of the terms name; nil without terms
}

var _ framework.PodInfo = (*podInfo)(nil)

// newPodInfo computes pod's requests and affinity terms. The error is about an invalid selector; the podInfo is usable
// and lacks that list of terms.
func newPodInfo(pod *corev1.Pod) (*podInfo, error) {
	p := &podInfo{pod: pod}
	p.requests = requestsOf(pod)
	err := p.parseAffinity()
	p.affinityLabels = p.selectedLabels()
	return p, err
}

func (p *podInfo) parseAffinity() error {
	a := p.pod.Spec.Affinity
	if a == nil {
		return nil
	}
	var err error
	keep := func(e error) {
		if e != nil && err == nil {
			err = fmt.Errorf("affinity of pod %s/%s: %w", p.pod.Namespace, p.pod.Name, e)
		}
	}
	var e error
	p.affinity, e = framework.GetAffinityTerms(p.pod, framework.GetPodAffinityTerms(a))
	keep(e)
	p.anti, e = framework.GetAffinityTerms(p.pod, framework.GetPodAntiAffinityTerms(a))
	keep(e)
	if a.PodAffinity != nil {
		p.preferredAffinity, e = framework.GetWeightedAffinityTerms(p.pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		keep(e)
	}
	if a.PodAntiAffinity != nil {
		p.preferredAnti, e = framework.GetWeightedAffinityTerms(p.pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		keep(e)
	}
	return err
}

// requestsOf computes the pod's requests, including init containers, sidecars, overhead, pod-level requests and resizes
// in progress.
func requestsOf(pod *corev1.Pod) framework.PodResource {
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	requests := resourcehelper.PodRequests(pod, opts)
	total := resourcesOf(requests)
	out := framework.PodResource{Resource: &total, Non0CPU: total.cpu, Non0Mem: total.memory}
	opts.NonMissingContainerRequests = nonZeroDefaults(pod, requests)
	if len(opts.NonMissingContainerRequests) > 0 {
		scored := resourcehelper.PodRequests(pod, opts)
		out.Non0CPU, out.Non0Mem = scored.Cpu().MilliValue(), scored.Memory().Value()
	}
	return out
}

// nonZeroDefaults returns the requests that are assumed for the containers without requests, none if there is no such container. Pod-level
// requests replace them.
func nonZeroDefaults(pod *corev1.Pod, requests corev1.ResourceList) corev1.ResourceList {
	if !slices.ContainsFunc(pod.Spec.Containers, lacksRequests) && !slices.ContainsFunc(pod.Spec.InitContainers, lacksRequests) {
		return nil
	}
	podLevel := resourcehelper.IsPodLevelRequestsSet(pod)
	out := corev1.ResourceList{}
	if _, ok := requests[corev1.ResourceCPU]; !podLevel || !ok {
		out[corev1.ResourceCPU] = defaultCPURequest
	}
	if _, ok := requests[corev1.ResourceMemory]; !podLevel || !ok {
		out[corev1.ResourceMemory] = defaultMemoryRequest
	}
	return out
}

func lacksRequests(c corev1.Container) bool {
	_, cpu := c.Resources.Requests[corev1.ResourceCPU]
	_, memory := c.Resources.Requests[corev1.ResourceMemory]
	return !cpu || !memory
}

// requested returns the pod's requests.
func (p *podInfo) requested() resources { return *p.requests.Resource.(*resources) }

// GetPod and the methods below implement framework.PodInfo.
func (p *podInfo) GetPod() *corev1.Pod                                    { return p.pod }
func (p *podInfo) GetRequiredAffinityTerms() []framework.AffinityTerm     { return p.affinity }
func (p *podInfo) GetRequiredAntiAffinityTerms() []framework.AffinityTerm { return p.anti }
func (p *podInfo) GetPreferredAffinityTerms() []framework.WeightedAffinityTerm {
	return p.preferredAffinity
}
func (p *podInfo) GetPreferredAntiAffinityTerms() []framework.WeightedAffinityTerm {
	return p.preferredAnti
}
func (p *podInfo) CalculateResource() framework.PodResource { return p.requests }
