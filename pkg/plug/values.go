package plug

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// valueError names the field of a duration or a quantity that cannot be decoded, which the decoder does not. It returns nil for other errors.
func valueError(raw []byte, into any, cause error) error {
	var document any
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil
	}
	path, value := find(document, func(of any) bool {
		part, err := yaml.Marshal(of)
		if err != nil {
			return false
		}
		err = yaml.Unmarshal(part, reflect.New(reflect.TypeOf(into).Elem()).Interface())
		return err != nil && err.Error() == cause.Error()
	})
	if _, err := time.ParseDuration(value); err != nil && strings.Contains(cause.Error(), err.Error()) {
		_, err := ParseDuration(value)
		return fmt.Errorf("%s: %w", path, err)
	}
	if errors.Is(cause, resource.ErrFormatWrong) {
		return fmt.Errorf("%s: %q is not a quantity such as 2Gi", path, value)
	}
	return nil
}

// find returns the path and the value of the first string in a document with which a document of this string alone is as required.
func find(in any, required func(document any) bool) (path, value string) {
	switch in := in.(type) {
	case string:
		if required(in) {
			return "", in
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(in)) {
			if path, value = find(in[key], func(of any) bool { return required(map[string]any{key: of}) }); value != "" {
				return strings.Replace(strings.TrimSuffix(key+"."+path, "."), ".[", "[", 1), value
			}
		}
	case []any:
		for i, item := range in {
			if path, value = find(item, func(of any) bool { return required([]any{of}) }); value != "" {
				return strings.TrimSuffix(fmt.Sprintf("[%d].%s", i, path), "."), value
			}
		}
	}
	return "", ""
}
