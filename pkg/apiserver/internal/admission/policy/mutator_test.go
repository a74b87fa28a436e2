package policy

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// TestPatchedEndsWithRequest checks that the JSON patch of a policy is not applied for a client that has gone.
func TestPatchedEndsWithRequest(t *testing.T) {
	r := plugincel.EvaluationResult{EvalResult: types.DefaultTypeAdapter.NativeToValue([]ref.Val{
		&mutation.JSONPatchVal{Op: "add", Path: "/data", Val: types.DefaultTypeAdapter.NativeToValue(map[string]string{"a": "b"})},
	})}
	obj := &corev1.ConfigMap{}
	obj.Name = strings.Repeat("n", 10)
	after, err := patched(t.Context(), obj, r)
	var got corev1.ConfigMap
	if err != nil || json.Unmarshal(after, &got) != nil || !reflect.DeepEqual(got.Data, map[string]string{"a": "b"}) {
		t.Errorf("%s, %v", after, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patched(ctx, obj, r); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the request: %v", err)
	}
}
