package bootstrap

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExpired(t *testing.T) {
	renewed := metav1.NewMicroTime(repairTime)
	seconds := int32(60)
	for _, tt := range []struct {
		name    string
		renewed *metav1.MicroTime
		seconds *int32
		after   time.Duration
		want    bool
	}{
		{"renewed", &renewed, &seconds, 59 * time.Second, false},
		{"at its end", &renewed, &seconds, 60 * time.Second, false},
		{"past it", &renewed, &seconds, 61 * time.Second, true},
		{"never renewed", nil, &seconds, 0, true},
		{"without a duration", &renewed, nil, 0, true},
	} {
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: tt.renewed, LeaseDurationSeconds: tt.seconds}}
		if got := expired(l, repairTime.Add(tt.after)); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
