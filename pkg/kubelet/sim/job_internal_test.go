package sim

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestHistoryOfManyPods checks that the history of a Job with many pods fits into its annotations, and that all starts count.
func TestHistoryOfManyPods(t *testing.T) {
	var h jobHistory
	const pods = 5000
	for i := range pods {
		pod := types.UID(fmt.Sprintf("%08d-0000-0000-0000-000000000000", i))
		if got := h.before("main", pod, 0); got != i {
			t.Fatalf("%d starts before pod %d", got, i)
		}
		if !h.add("main", pod, 0) || h.add("main", pod, 0) {
			t.Fatalf("pod %d is not recorded once", i)
		}
		if got := h.before("main", pod, 1); got != i+1 {
			t.Fatalf("%d starts before the second one of pod %d", got, i)
		}
	}
	text, err := json.Marshal(h)
	if err != nil || len(text) > 64<<10 {
		t.Errorf("the history has %d bytes, %v", len(text), err)
	}
}
