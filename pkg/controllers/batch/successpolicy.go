package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// matchSuccessPolicy returns the message about the first rule that the succeeded indexes satisfy, "" if there is none.
func matchSuccessPolicy(policy *batchv1.SuccessPolicy, completions int, succeeded indexes) string {
	if policy == nil || len(succeeded) == 0 {
		return ""
	}
	for i, rule := range policy.Rules {
		if succeededEnough(&rule, completions, succeeded) {
			return fmt.Sprintf("Matched rules at index %d", i)
		}
	}
	return ""
}

func succeededEnough(rule *batchv1.SuccessPolicyRule, completions int, succeeded indexes) bool {
	n := succeeded.count()
	if rule.SucceededIndexes != nil {
		required := parseIndexes(*rule.SucceededIndexes, completions)
		if len(required) == 0 {
			return false
		}
		if n = required.common(succeeded); n == required.count() {
			return true
		}
	}
	return rule.SucceededCount != nil && n >= int(*rule.SucceededCount)
}
