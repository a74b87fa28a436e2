package flowcontrol

import (
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// SystemLevels are the priority levels that every cluster has, those that may not be changed first.
func SystemLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	return slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations)
}

// SystemSchemas are the flow schemas that every cluster has, those that may not be changed first.
func SystemSchemas() []*flowcontrolv1.FlowSchema {
	return slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas)
}

// mandatorySchema returns the schema of that name that may not be changed, nil if there is none.
func mandatorySchema(name string) *flowcontrolv1.FlowSchema {
	for _, s := range bootstrap.MandatoryFlowSchemas {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// mandatoryLevel returns the level of that name that may not be changed, nil if there is none.
func mandatoryLevel(name string) *flowcontrolv1.PriorityLevelConfiguration {
	for _, l := range bootstrap.MandatoryPriorityLevelConfigurations {
		if l.Name == name {
			return l
		}
	}
	return nil
}
