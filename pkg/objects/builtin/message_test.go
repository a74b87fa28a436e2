package builtin_test

import (
	"slices"
	"testing"

	"github.com/minikctl/minikctl/pkg/objects"
)

// TestMessages checks the text and order of errors of invalid objects.
func TestMessages(t *testing.T) {
	tests := []struct{ kind, name, object, want string }{
		{"NetworkPolicy", "types", `{spec: {podSelector: {}, policyTypes: [x]}}`,
			`spec.policyTypes[0]: Unsupported value: "x": supported values: "Ingress", "Egress"`},
		{"NetworkPolicy", "protocol", `{spec: {podSelector: {}, ingress: [{ports: [{protocol: x}]}]}}`,
			`spec.ingress[0].ports[0].protocol: Unsupported value: "x": supported values: "TCP", "UDP", "SCTP"`},
		{"Lease", "finalizers of any name", `{metadata: {name: x, finalizers: [abc]}}`, ""},
		{"RuntimeClass", "finalizers of any name", `{metadata: {name: x, finalizers: [abc]}, handler: h}`, ""},
		{"RuntimeClass", "same tolerations", `{handler: h, scheduling: {tolerations: [{key: a, operator: Exists}, {key: a, operator: Exists}]}}`,
			`scheduling.tolerations[1]: Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}`},
		{"FlowSchema", "distinguisher", `{spec: {matchingPrecedence: 5, distinguisherMethod: {type: x}, priorityLevelConfiguration: {name: p}}}`,
			`spec.distinguisherMethod.type: Unsupported value: {"Type":"x"}: supported values: "ByNamespace", "ByUser"`},
		{"PriorityLevelConfiguration", "no type", `{spec: {}}`, `spec.type: Required value`},
		{"PriorityLevelConfiguration", "no response", `{spec: {type: Limited, limited: {}}}`, `spec.limited.limitResponse.type: Required value`},
		{"PriorityLevelConfiguration", "exempt", `{spec: {type: Exempt}}`, "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"},
		{"ValidatingAdmissionPolicyBinding", "no action", `{spec: {policyName: p, validationActions: [Deny], paramRef: {name: a}}}`,
			`spec.paramRef.parameterNotFoundAction: Required value`},
		{"ValidatingAdmissionPolicyBinding", "match", `{spec: {policyName: p, validationActions: [Deny], matchResources: {matchPolicy: x}}}`,
			`spec.matchResources.matchPolicy: Unsupported value: "x": supported values: "Equivalent", "Exact"`},
		{"MutatingAdmissionPolicyBinding", "of deletes",
			`{spec: {policyName: p, matchResources: {resourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}}}`,
			`spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`},
		{"MutatingAdmissionPolicy", "of deletes", `{spec: {reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, applyConfiguration: {expression: x}}],
			matchConstraints: {resourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}}}`,
			`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE", ` +
				`spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch, ` +
				`spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`},
		{"MutatingAdmissionPolicy", "no expression", `{spec: {reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: " "}}],
			matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}, variables: [{name: if, expression: "1"}]}}`,
			`spec.variables[0].name: Invalid value: "if": must be a valid CEL identifier, spec.mutations[0].jsonPatch.expression: Required value`},
		{"ResourceSlice", "attribute", `{spec: {driver: d.example.com, pool: {name: p, resourceSliceCount: 1}, allNodes: true, devices: [{name: a, attributes: {m: {int: 1, bool: true}}}]}}`,
			`spec.devices[0].attributes[m]: Invalid value: {"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null,` +
				`"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}: exactly one value must be specified`},
		{"ResourceSlice", "terms", `{spec: {driver: d.example.com, pool: {name: p, resourceSliceCount: 1}, nodeSelector: {nodeSelectorTerms: [{}, {}]}}}`,
			`spec.nodeSelector.nodeSelectorTerms: Invalid value: [{"MatchExpressions":null,"MatchFields":null},{"MatchExpressions":null,"MatchFields":null}]: ` +
				`must have exactly one node selector term`},
		{"ServiceCIDR", "three", `{spec: {cidrs: [a, b, c]}}`, `spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values`},
		{"StorageClass", "empty term", `{provisioner: a/b, allowedTopologies: [{}]}`, `allowedTopologies[0].matchLabelExpressions: Duplicate value: ""`},
		{"Node", "the one range rules", `{spec: {podCIDR: x, podCIDRs: [10.0.0.0/24]}}`,
			`spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			r := row(t, tt.kind)
			obj := object(t, r, tt.object)
			r.Prepare(obj, nil)
			want(t, r.Validate(obj, nil), tt.want)
		})
	}
}

func TestWarnings(t *testing.T) {
	const noSecrets = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
	const noMounts = "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
	const static = `metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`
	tests := []struct{ kind, name, object, old, want string }{
		{"CSIDriver", "tokens", `{spec: {tokenRequests: [{audience: a}]}}`, "", noSecrets},
		{"CSIDriver", "tokens before", `{spec: {tokenRequests: [{audience: a}]}}`, `{spec: {tokenRequests: [{audience: a}]}}`, ""},
		{"CSIDriver", "other tokens", `{spec: {tokenRequests: [{audience: b}]}}`, `{spec: {tokenRequests: [{audience: a}]}}`, noSecrets},
		{"CSIDriver", "tokens in secrets", `{spec: {tokenRequests: [{audience: a}], serviceAccountTokenInSecrets: false}}`, "", ""},
		{"ServiceAccount", "mounts", `{metadata: {name: x, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}}`, "", noMounts},
		{"ServiceAccount", "mounts before", `{metadata: {name: x, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}}`,
			`{metadata: {name: x, annotations: {kubernetes.io/enforce-mountable-secrets: "false"}}}`, ""},
		{"Node", "external ID", `spec: {externalID: x}`, "", "spec.externalID: this field is deprecated, and is unused by Kubernetes"},
		{"Node", "addresses of pods", `spec: {podCIDRs: ["2001:DB8::/64"]}`, "", `spec.podCIDRs[0]: IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format ("2001:db8::/64")`},
		{"Secret", "no certificate", `{type: kubernetes.io/tls, data: {tls.crt: YQ==, tls.key: Yg==}}`, "", "tls: failed to find any PEM data in certificate input"},
		{"Secret", "no certificate that is none", `{data: {tls.crt: YQ==, tls.key: Yg==}}`, "", ""},
		{"Endpoints", "addresses", `subsets: [{addresses: [{ip: "2001:DB8::1"}]}]`, "", `subsets[0].addresses[0].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")`},
		{"Endpoints", "addresses of the controller", `{metadata: {name: x, labels: {endpoints.kubernetes.io/managed-by: endpoint-controller}}, subsets: [{addresses: [{ip: "2001:DB8::1"}]}]}`, "", ""},
		{"MutatingWebhookConfiguration", "name", `metadata: {name: a.static.k8s.io}`, "", static},
		{"ValidatingAdmissionPolicyBinding", "name", `metadata: {name: a.static.k8s.io}`, `metadata: {name: a.static.k8s.io}`, static},
		{"ValidatingAdmissionPolicy", "name", `metadata: {name: a.k8s.io}`, "", ""},
		{"StatefulSet", "claims", `spec: {volumeClaimTemplates: [{spec: {resources: {requests: {storage: 1m}}}}]}`, "",
			`spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1m" is invalid, must be an integer`},
		{"StatefulSet", "claims that stay", `spec: {volumeClaimTemplates: [{spec: {resources: {requests: {storage: 1m}}}}]}`, `spec: {volumeClaimTemplates: [{spec: {resources: {requests: {storage: 1m}}}}]}`,
			`spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value "1m" is invalid, must be an integer`},
		{"DaemonSet", "template that stays", `spec: {minReadySeconds: 1, template: {spec: {terminationGracePeriodSeconds: -1}}}`, `spec: {template: {spec: {terminationGracePeriodSeconds: -1}}}`, ""},
		{"PodTemplate", "template that stays", `template: {spec: {terminationGracePeriodSeconds: -1}}`, `template: {spec: {terminationGracePeriodSeconds: -1}}`, ""},
		{"RuntimeClass", "label", `{handler: h, scheduling: {nodeSelector: {beta.kubernetes.io/os: linux}}}`, "",
			`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead`},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			r := row(t, tt.kind)
			var old objects.Object
			if tt.old != "" {
				old = object(t, r, tt.old)
			}
			var all []string
			if tt.want != "" {
				all = []string{tt.want}
			}
			if got := r.Warnings(object(t, r, tt.object), old); !slices.Equal(got, all) {
				t.Errorf("got %q, want %q", got, all)
			}
		})
	}
}
