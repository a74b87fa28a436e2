package resource

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// maxBase bounds the base of a generated name, which five random characters follow.
const maxBase = 57

// newClaim returns the claim of a pod from a template. name is that of the claim in the pod.
func newClaim(pod *corev1.Pod, name string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	template = template.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, template.Spec.Annotations)
	annotations[resourcev1.PodResourceClaimAnnotation] = name
	isController := true
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: generatedBase(pod.Name, name), Namespace: pod.Namespace, Annotations: annotations, Labels: template.Spec.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isController}},
		},
		Spec: template.Spec.Spec,
	}
}

// generatedBase returns the base of the name of a claim. Long names of pods and claims are cut in proportion to their lengths.
func generatedBase(pod, claim string) string {
	base := pod + "-" + claim + "-"
	if n := len(base); n > maxBase {
		return pod[:len(pod)*maxBase/n] + "-" + claim[:len(claim)*maxBase/n]
	}
	return base
}

// madeClaims remembers the claims that were made for pods until the pods' statuses in the cache have their names, so that a pod does not
// get two while the caches are behind. It is safe for concurrent use.
type madeClaims struct {
	mu    sync.Mutex
	byPod map[objects.Key]podClaims
}

type podClaims struct {
	uid   types.UID
	names map[string]string // of the claims, by their names in the pod
}

func newMadeClaims() *madeClaims { return &madeClaims{byPod: map[objects.Key]podClaims{}} }

func (m *madeClaims) add(pod *corev1.Pod, claim, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := controller.KeyOf(pod)
	if m.byPod[key].uid != pod.UID {
		m.byPod[key] = podClaims{uid: pod.UID, names: map[string]string{}}
	}
	m.byPod[key].names[claim] = name
}

// name returns the name of a claim that was made for a pod; "": none.
func (m *madeClaims) name(pod *corev1.Pod, claim string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.byPod[controller.KeyOf(pod)]; p.uid == pod.UID {
		return p.names[claim]
	}
	return ""
}

// observe forgets the claims whose names a pod's status has.
func (m *madeClaims) observe(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.byPod[controller.KeyOf(pod)]
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil && p.names[s.Name] == *s.ResourceClaimName {
			delete(p.names, s.Name)
		}
	}
	if len(p.names) == 0 {
		delete(m.byPod, controller.KeyOf(pod))
	}
}

func (m *madeClaims) forget(key objects.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byPod, key)
}
