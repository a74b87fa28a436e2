package resource

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// configuration checks a driver's parameters. Stored ones may be longer than new ones.
func configuration(c *resourcev1.DeviceConfiguration, stored bool, at *field.Path) field.ErrorList {
	at = at.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	longest := resourcev1.OpaqueParametersMaxLength
	if stored {
		longest = unlimited
	}
	errs := volume.ValidateDriver(c.Opaque.Driver, at.Child("driver"))
	return append(errs, rawObject(&c.Opaque.Parameters, longest, at.Child("parameters"))...)
}

// rawObject checks that raw is a JSON object.
func rawObject(raw *runtime.RawExtension, longest int, at *field.Path) field.ErrorList {
	if len(raw.Raw) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	if longest != unlimited && len(raw.Raw) > longest {
		return field.ErrorList{field.TooLong(at, "", longest)}
	}
	var v any
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	if v == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	if _, ok := v.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}
