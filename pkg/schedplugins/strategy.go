package schedplugins

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// rater returns the function that scores a node's usage by a scoring strategy.
func rater(path *field.Path, s *configv1.ScoringStrategy) (func([]usage) int64, field.ErrorList) {
	switch s.Type {
	case configv1.LeastAllocated, "":
		return average(func(u usage) int64 {
			if u.requested > u.allocatable {
				return 0
			}
			return (u.allocatable - u.requested) * framework.MaxScore / u.allocatable
		}), nil
	case configv1.MostAllocated:
		return average(func(u usage) int64 {
			return min(u.requested, u.allocatable) * framework.MaxScore / u.allocatable
		}), nil
	case configv1.RequestedToCapacityRatio:
		return byRatio(path.Child("requestedToCapacityRatio", "shape"), s.RequestedToCapacityRatio)
	}
	return nil, field.ErrorList{field.NotSupported(path.Child("type"), s.Type,
		[]configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio})}
}

// average scores each resource and returns the weighted average.
func average(rate func(usage) int64) func([]usage) int64 {
	return func(resources []usage) int64 {
		var sum, weights int64
		for _, u := range resources {
			sum += rate(u) * u.weight
			weights += u.weight
		}
		if weights == 0 {
			return 0
		}
		return sum / weights
	}
}

// maxShapeScore is the highest score in a shape; shapes are scaled up to the highest of a node.
const maxShapeScore = 10

// byRatio scores resources by linear interpolation between the points of the shape. A resource with score zero does not
// count.
func byRatio(path *field.Path, param *configv1.RequestedToCapacityRatioParam) (func([]usage) int64, field.ErrorList) {
	if param == nil || len(param.Shape) == 0 {
		return nil, field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	shape := make([]point, 0, len(param.Shape))
	var errs field.ErrorList
	wrong := func(i int, name string, value any, detail string) {
		errs = append(errs, field.Invalid(path.Index(i).Child(name), value, detail))
	}
	for i, p := range param.Shape {
		if p.Utilization < 0 || p.Utilization > 100 {
			wrong(i, "utilization", p.Utilization, "not in valid range [0-100]")
		}
		if i > 0 && p.Utilization <= param.Shape[i-1].Utilization {
			wrong(i, "utilization", p.Utilization, "utilization values must be sorted in increasing order")
		}
		if p.Score < 0 || p.Score > maxShapeScore {
			wrong(i, "score", p.Score, fmt.Sprintf("not in valid range [0-%d]", maxShapeScore))
		}
		shape = append(shape, point{int64(p.Utilization), int64(p.Score) * (framework.MaxScore / maxShapeScore)})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return func(resources []usage) int64 {
		var sum, weights int64
		for _, u := range resources {
			used := int64(100)
			if u.requested <= u.allocatable {
				used = u.requested * 100 / u.allocatable
			}
			if v := interpolate(shape, used); v > 0 {
				sum += v * u.weight
				weights += u.weight
			}
		}
		if weights == 0 {
			return 0
		}
		return int64(math.Round(float64(sum) / float64(weights)))
	}, nil
}

// point is one point of a shape.
type point struct{ at, score int64 }

// interpolate returns the score at x on the line through the points; flat before the first and after the last.
func interpolate(shape []point, x int64) int64 {
	for i, p := range shape {
		if x > p.at {
			continue
		}
		if i == 0 {
			return p.score
		}
		prev := shape[i-1]
		return prev.score + (p.score-prev.score)*(x-prev.at)/(p.at-prev.at)
	}
	return shape[len(shape)-1].score
}
