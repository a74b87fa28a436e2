// Package eviction decides which pods a kubelet evicts, and which pressure its node has, from what it measures. Its functions have no
// effects and follow the eviction manager of Kubernetes.
package eviction

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/plug"
)

// Signal is something of a node that is measured.
type Signal string

// The signals. A node has one file system, so those of images and containers have the same values as that of the node.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFsAvailable            Signal = "nodefs.available"
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available"
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	ContainerFsAvailable       Signal = "containerfs.available"
	ContainerFsInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// The resources that are not in the API.
const (
	inodes corev1.ResourceName = "inodes"
	pids   corev1.ResourceName = "pids"
)

// resourceOf returns the resource that a signal measures, "" for an unknown signal.
func resourceOf(s Signal) corev1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return corev1.ResourceMemory
	case NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable:
		return corev1.ResourceEphemeralStorage
	case NodeFsInodesFree, ImageFsInodesFree, ContainerFsInodesFree:
		return inodes
	case PIDAvailable:
		return pids
	}
	return ""
}

// conditionOf returns the condition of a node on which a threshold of the signal is met.
func conditionOf(s Signal) corev1.NodeConditionType {
	switch resourceOf(s) {
	case corev1.ResourceMemory:
		return corev1.NodeMemoryPressure
	case pids:
		return corev1.NodePIDPressure
	}
	return corev1.NodeDiskPressure
}

// Config are the settings of evictions, as in a KubeletConfiguration: by signal, with an amount or a percentage of the capacity.
type Config struct {
	Hard, Soft, MinimumReclaim map[string]string
	SoftGracePeriod            map[string]string
	MaxPodGracePeriod          int64         // in seconds, of pods that a soft threshold evicts
	TransitionPeriod           time.Duration // how long a condition stays after its threshold was met
}

// Value is an amount, or with a nil Quantity a share of the capacity.
type Value struct {
	Quantity *resource.Quantity
	Share    float32
}

// of returns the amount for a capacity.
func (v Value) of(capacity resource.Quantity) resource.Quantity {
	if v.Quantity != nil {
		return v.Quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*float64(v.Share)), resource.BinarySI)
}

// Threshold is met while less than Value of a signal is available.
type Threshold struct {
	Signal     Signal
	Hard       bool // pods are evicted at once
	Value      Value
	Grace      time.Duration // how long a soft threshold may be met before pods are evicted
	MinReclaim *Value        // how much more than Value has to be available before the threshold counts as no longer met
}

// id identifies a threshold among those of a configuration.
type id struct {
	signal Signal
	hard   bool
}

func (t Threshold) id() id { return id{t.Signal, t.Hard} }

// Parse returns the thresholds of a configuration, memory first. An empty one has none.
func Parse(c Config) ([]Threshold, error) {
	var out []Threshold
	for _, kind := range []struct {
		name string
		of   map[string]string
		hard bool
	}{{"evictionHard", c.Hard, true}, {"evictionSoft", c.Soft, false}} {
		for _, name := range slices.Sorted(maps.Keys(kind.of)) {
			t, ok, err := c.parse(Signal(name), kind.of[name], kind.hard)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
			if ok {
				out = append(out, t)
			}
		}
	}
	for what, of := range map[string]map[string]string{"evictionSoftGracePeriod": c.SoftGracePeriod, "evictionMinimumReclaim": c.MinimumReclaim} {
		for name := range of {
			if resourceOf(Signal(name)) == "" {
				return nil, fmt.Errorf("%s: unsupported eviction signal %s", what, name)
			}
		}
	}
	for _, t := range out {
		if t.Hard && t.Signal == MemoryAvailable {
			t.Signal = AllocatableMemoryAvailable
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b Threshold) int {
		return cmp.Compare(btoi(resourceOf(a.Signal) != corev1.ResourceMemory), btoi(resourceOf(b.Signal) != corev1.ResourceMemory))
	})
	return out, nil
}

// parse returns the threshold of a signal. A share of 0 % or 100 % switches it off, as in Kubernetes.
func (c Config) parse(s Signal, text string, hard bool) (Threshold, bool, error) {
	t := Threshold{Signal: s, Hard: hard}
	if resourceOf(s) == "" || s == AllocatableMemoryAvailable {
		return t, false, fmt.Errorf("unsupported eviction signal %s", s)
	}
	if text == "0%" || text == "100%" {
		return t, false, nil
	}
	var err error
	if t.Value, err = parseValue(text); err != nil {
		return t, false, fmt.Errorf("%s: %w", s, err)
	}
	if reclaim, ok := c.MinimumReclaim[string(s)]; ok {
		v, err := parseValue(reclaim)
		if err != nil {
			return t, false, fmt.Errorf("minimum reclaim of %s: %w", s, err)
		}
		t.MinReclaim = &v
	}
	if hard {
		return t, true, nil
	}
	grace, ok := c.SoftGracePeriod[string(s)]
	if !ok {
		return t, false, fmt.Errorf("grace period must be specified for the soft eviction threshold %s", s)
	}
	t.Grace, err = plug.ParseDuration(grace)
	if err == nil && t.Grace < 0 {
		err = errors.New("it is negative")
	}
	if err != nil {
		return t, false, fmt.Errorf("grace period of %s: %w", s, err)
	}
	return t, true, nil
}

func parseValue(text string) (Value, error) {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		f, err := strconv.ParseFloat(share, 32)
		if err != nil {
			return Value{}, fmt.Errorf("%q is not a percentage such as 10%%", text)
		}
		if f < 0 || f > 100 {
			return Value{}, fmt.Errorf("%s is not from 0%% to 100%%", text)
		}
		return Value{Share: float32(f) / 100}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Value{}, fmt.Errorf("%q is neither a quantity such as 100Mi nor a percentage", text)
	}
	if q.Sign() <= 0 {
		return Value{}, fmt.Errorf("%s is not positive", text)
	}
	return Value{Quantity: &q}, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
