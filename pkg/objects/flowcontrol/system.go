package flowcontrol

import (
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// SystemLevels returns the priority levels of every cluster, mandatory ones first.
func SystemLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	return slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations)
}

// SystemSchemas returns the flow schemas of every cluster, mandatory ones first.
func SystemSchemas() []*flowcontrolv1.FlowSchema {
	return slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas)
}

// mandatorySchema returns the mandatory schema of that name, or nil.
func mandatorySchema(name string) *flowcontrolv1.FlowSchema {
	for _, s := range bootstrap.MandatoryFlowSchemas {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// mandatoryLevel returns the mandatory level of that name, or nil.
func mandatoryLevel(name string) *flowcontrolv1.PriorityLevelConfiguration {
	for _, l := range bootstrap.MandatoryPriorityLevelConfigurations {
		if l.Name == name {
			return l
		}
	}
	return nil
}
