package whatif

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The names that the tools of the openb traces use: a GPU is 1000 units of GPUMilli.
const (
	GPUMilli = "alibabacloud.com/gpu-milli"
	GPUModel = "alibabacloud.com/gpu-card-model"
	podQoS   = "alibabacloud.com/qos"
)

// maxNodePods is the number of pods that may run on a node of an openb trace, which has no such column: the kubelet's default.
const maxNodePods = 110

// File is the content of a file of a trace.
type File struct {
	Name string
	Data []byte
}

// openbTrace are the nodes and pods of a trace in the "openb" format of Alibaba's cluster-trace-gpu-v2023.
type openbTrace struct {
	nodes []*corev1.Node
	pods  []openbPod
	gangs map[string]*openbGang
}

// openbGang is a gang of an openb trace, of pods that have its name in the column gang.
type openbGang struct{ pods, least int64 }

// openbPod is a pod with the seconds at which it arrives and leaves; left is -1 if it stays.
type openbPod struct {
	pod           *corev1.Pod
	created, left int64
}

// IsOpenB reports whether a file has the header of an openb node or pod list.
func IsOpenB(data []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimPrefix(data, []byte(byteOrderMark)), []byte("\n"))
	header := strings.Split(strings.TrimSpace(string(line)), ",")
	return slices.Contains(header, "cpu_milli") && slices.Contains(header, "memory_mib")
}

const byteOrderMark = "\xef\xbb\xbf"

// ReadOpenB reads an openb trace: a list of nodes and one of pods, in any order, or several of each.
func ReadOpenB(name string, files []File) (Trace, error) {
	t := openbTrace{gangs: map[string]*openbGang{}}
	names := map[string]string{}
	for _, f := range files {
		if err := t.read(f, names); err != nil {
			return Trace{}, err
		}
	}
	switch {
	case len(t.nodes) == 0:
		return Trace{}, errors.New("an openb trace needs a list of nodes, with the columns sn, cpu_milli, memory_mib, gpu and model")
	case len(t.pods) == 0:
		return Trace{}, errors.New("an openb trace needs a list of pods, with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, creation_time and deletion_time")
	}
	out := Trace{Name: name, Play: t.play}
	if len(t.gangs) > 0 {
		out.Features = gangFeatures
	}
	return out, nil
}

// read adds the lines of a file. names has the indexes of the nodes and pods so far.
func (t *openbTrace) read(f File, names map[string]string) error {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(f.Data, []byte(byteOrderMark))))
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s: header: %w", f.Name, cmp.Or(csvError(err), io.ErrUnexpectedEOF))
	}
	line := csvLine{file: f.Name, columns: map[string]int{}}
	for i, column := range header {
		column = strings.TrimSpace(column)
		if _, twice := line.columns[column]; twice {
			return fmt.Errorf("%s:1: column %q is there twice", f.Name, column)
		}
		line.columns[column] = i
	}
	kind, add := "pod", t.addPod
	if _, ok := line.columns["sn"]; ok {
		kind, add = "node", t.addNode
	}
	for {
		line.fields, err = r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, csvError(err))
		}
		line.number, _ = r.FieldPos(0)
		name := add(&line)
		if line.err != nil {
			return line.err
		}
		here := fmt.Sprintf("%s:%d", f.Name, line.number)
		if before, twice := names[kind+name]; twice {
			return fmt.Errorf("%s: %s %q is there already, at %s", here, kind, name, before)
		}
		names[kind+name] = here
	}
}

// csvError leaves out what encoding/csv says of a record that begins on another line.
func csvError(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("line %d: %w", parse.Line, parse.Err)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (t *openbTrace) addNode(l *csvLine) string {
	name := l.name("sn")
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(l.number64("cpu_milli", maxMilli), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(l.number64("memory_mib", maxMiB)<<20, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(maxNodePods, resource.DecimalSI),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if gpus := l.number64("gpu", maxGPUs); gpus > 0 {
		amounts[GPUMilli] = *resource.NewQuantity(gpus*1000, resource.DecimalSI)
		if model := l.text("model"); model != "" {
			l.checkLabel("model", model)
			node.Labels[GPUModel] = model
		}
	}
	node.Status.Capacity, node.Status.Allocatable = amounts, amounts
	t.nodes = append(t.nodes, node)
	return name
}

func (t *openbTrace) addPod(l *csvLine) string {
	name := l.name("name")
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(l.number64("cpu_milli", maxMilli), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(l.number64("memory_mib", maxMiB)<<20, resource.BinarySI),
	}
	if gpus := l.number64("num_gpu", maxGPUs); gpus > 0 {
		requests[GPUMilli] = *resource.NewQuantity(gpus*l.number64("gpu_milli", 1000), resource.DecimalSI)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{Priority: new(int32(0)), SchedulerName: corev1.DefaultSchedulerName, Affinity: l.models(),
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}},
	}
	if qos := l.optional("qos"); qos != "" {
		l.checkLabel("qos", qos)
		pod.Labels = map[string]string{podQoS: qos}
	}
	p := openbPod{pod: pod, created: l.number64("creation_time", maxSeconds), left: -1}
	if l.optional("deletion_time") != "" {
		if p.left = l.number64("deletion_time", maxSeconds); p.left < p.created {
			l.fail("deletion_time", fmt.Sprintf("%d is before the creation_time, %d", p.left, p.created))
		}
	}
	t.joinGang(l, pod)
	t.pods = append(t.pods, p)
	return name
}

// joinGang makes a pod a member of the gang in the column gang. gang_min is the number of pods that the gang needs, by default all of them.
func (t *openbTrace) joinGang(l *csvLine, pod *corev1.Pod) {
	if l.optional("gang") == "" {
		return
	}
	name := l.name("gang")
	gang := t.gangs[name]
	if gang == nil {
		gang = &openbGang{}
		t.gangs[name] = gang
	}
	gang.pods++
	if l.optional("gang_min") != "" {
		least := l.number64("gang_min", math.MaxInt32)
		if gang.least != 0 && gang.least != least {
			l.fail("gang_min", fmt.Sprintf("another pod of the gang %s has %d", name, gang.least))
		}
		gang.least = least
	}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// podGroup returns the PodGroup of a gang.
func (g *openbGang) podGroup(name string) *schedulingv1alpha2.PodGroup {
	policy := schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(cmp.Or(g.least, g.pods))}}
	return &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: policy}}
}

// models returns the affinity to nodes with one of the GPU models in gpu_spec, nil if it is empty.
func (l *csvLine) models() *corev1.Affinity {
	spec := l.optional("gpu_spec")
	if spec == "" {
		return nil
	}
	var models []string
	for model := range strings.SplitSeq(spec, "|") {
		if model = strings.TrimSpace(model); model != "" {
			l.checkLabel("gpu_spec", model)
			models = append(models, model)
		}
	}
	if len(models) == 0 {
		l.fail("gpu_spec", fmt.Sprintf("%q has no model", spec))
	}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: GPUModel, Operator: corev1.NodeSelectorOpIn, Values: models}}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}
}

// The greatest values of the columns, so that sums stay within their types.
const (
	maxMilli   = 1 << 30
	maxMiB     = 1 << 30
	maxGPUs    = 1 << 20
	maxSeconds = 1 << 30 // 34 years
)

// csvLine is a line of a file. err is the first error.
type csvLine struct {
	file    string
	number  int
	columns map[string]int
	fields  []string
	err     error
}

func (l *csvLine) fail(column, message string) {
	if l.err == nil {
		l.err = fmt.Errorf("%s:%d: column %q: %s", l.file, l.number, column, message)
	}
}

// text returns the value of a column that the file must have. "nan" is an empty value.
func (l *csvLine) text(column string) string {
	if _, ok := l.columns[column]; !ok {
		l.fail(column, "the file has no such column")
	}
	return l.optional(column)
}

// optional returns the value of a column, "" if the file does not have it.
func (l *csvLine) optional(column string) string {
	i, ok := l.columns[column]
	if !ok {
		return ""
	}
	text := strings.TrimSpace(l.fields[i])
	if strings.EqualFold(text, "nan") {
		return ""
	}
	return text
}

// number64 returns the value of a column, which is a whole number from 0 to most.
func (l *csvLine) number64(column string, most int64) int64 {
	text := l.text(column)
	v, err := strconv.ParseFloat(text, 64) // a spreadsheet may have written 12.0
	if err != nil || v != math.Trunc(v) || v < 0 || v > float64(most) {
		l.fail(column, fmt.Sprintf("%q is not a whole number from 0 to %d", text, most))
		return 0
	}
	return int64(v)
}

func (l *csvLine) name(column string) string {
	text := l.text(column)
	if errs := validation.IsDNS1123Subdomain(text); len(errs) > 0 {
		l.fail(column, fmt.Sprintf("%q is not a name: %s", text, errs[0]))
	}
	return text
}

func (l *csvLine) checkLabel(column, value string) {
	if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
		l.fail(column, fmt.Sprintf("%q is not the value of a label: %s", value, errs[0]))
	}
}

// openbEvent is a pod that arrives or leaves.
type openbEvent struct {
	second int64
	order  int // at the same second pods leave before others arrive; those that leave at once do so after their arrival
	pod    int
	leaves bool
}

// play adds the nodes, and has the pods arrive and leave at their times. The time begins with the first creation. A pod that is evicted arrives again.
func (t *openbTrace) play(ctx context.Context, p *Player) error {
	for _, n := range t.nodes {
		p.SetNode(ctx, n.DeepCopy())
	}
	for name, gang := range t.gangs {
		p.SetPodGroup(ctx, gang.podGroup(name))
	}
	var events []openbEvent
	for i, pod := range t.pods {
		events = append(events, openbEvent{pod.created, 1, i, false})
		switch {
		case pod.left == pod.created:
			events = append(events, openbEvent{pod.left, 2, i, true})
		case pod.left >= 0:
			events = append(events, openbEvent{pod.left, 0, i, true})
		}
	}
	slices.SortStableFunc(events, func(a, b openbEvent) int {
		return cmp.Or(cmp.Compare(a.second, b.second), cmp.Compare(a.order, b.order))
	})
	first := slices.MinFunc(t.pods, func(a, b openbPod) int { return cmp.Compare(a.created, b.created) }).created
	at := func(second int64) time.Duration { return time.Duration(second-first) * time.Second }
	alive := map[int]types.UID{}
	add := func(ctx context.Context, i int, pod *corev1.Pod) error {
		err := p.AddPod(ctx, pod)
		alive[i] = pod.UID
		return err
	}
	for _, e := range events {
		p.At(at(e.second), func(ctx context.Context) error {
			if e.leaves {
				p.DeletePod(ctx, alive[e.pod])
				delete(alive, e.pod)
				return nil
			}
			return add(ctx, e.pod, t.pods[e.pod].pod.DeepCopy())
		})
	}
	p.Evicted = func(pod *corev1.Pod) {
		for i, uid := range alive {
			if uid == pod.UID {
				p.At(p.Elapsed(), func(ctx context.Context) error {
					if alive[i] != uid {
						return nil // it left meanwhile
					}
					return add(ctx, i, again(pod))
				})
			}
		}
	}
	last := at(events[len(events)-1].second)
	p.Interval = max(p.Interval, last/(maxSamples/2))
	_, err := p.Run(ctx, never, last+maxTail)
	return err
}
