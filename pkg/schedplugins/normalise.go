package schedplugins

import "k8s.io/kube-scheduler/framework"

// normalise scales scores so that the highest becomes the maximum; reversed, so that the highest becomes zero and zero
// the maximum.
func normalise(scores framework.NodeScoreList, reverse bool) {
	var most int64
	for i := range scores {
		most = max(most, scores[i].Score)
	}
	for i := range scores {
		s := scores[i].Score
		if most > 0 {
			s = framework.MaxScore * s / most
		}
		if reverse {
			s = framework.MaxScore - s
		}
		scores[i].Score = s
	}
}
