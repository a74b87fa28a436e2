package apiserver_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// costCase is a kind of request, whose body can have any size.
type costCase struct {
	name         string
	method, path string // NAME is replaced by the name of the object
	media        string
	before       string                // the object that exists; "": none
	beforePath   string                // where it is created
	body         func(size int) string // about size bytes
}

// place is a part of an object that takes a value of any shape.
type place struct {
	name    string
	path    string // of the collection
	kind    string // the beginning of the object: apiVersion and kind
	base    string // the rest of a valid object
	doc     string // an object with VALUE at the place
	pointer string // of the place
}

const meta = `"metadata":{"name":"NAME"}`

var costPlaces = func() []place {
	const (
		maps, pods, customs = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods", "/apis/example.com/v1/namespaces/default/things"
		configMap, pod      = `"apiVersion":"v1","kind":"ConfigMap",`, `"apiVersion":"v1","kind":"Pod",`
		thing, crd          = `"apiVersion":"example.com/v1","kind":"Thing",`, `"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`
		container           = meta + `,"spec":{"containers":[{"name":"c","image":"i"}]}`
		crdSpec             = `"metadata":{"name":"NAME.costs.example"},"spec":{"group":"costs.example","scope":"Cluster","names":{"plural":"NAME","singular":"NAME","kind":"NAME","listKind":"NAMEList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":`
	)
	in := func(field string) string { return `"metadata":{"name":"NAME","` + field + `":VALUE}` }
	inContainer := func(field string) string {
		return meta + `,"spec":{"containers":[{"name":"c","image":"i","` + field + `":VALUE}]}`
	}
	inThing := func(field string) string { return meta + `,"spec":{"` + field + `":VALUE}` }
	schema := func(s string) string { return crdSpec + s + `}}]}` }
	crds := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	anyThing := schema(`{"type":"object"}`)
	return []place{
		{"ConfigMap data", maps, configMap, meta, meta + `,"data":VALUE`, "/data"},
		{"ConfigMap unknown field", maps, configMap, meta, meta + `,"zzz":VALUE`, "/zzz"},
		{"ConfigMap labels", maps, configMap, meta, in("labels"), "/metadata/labels"},
		{"ConfigMap annotations", maps, configMap, meta, in("annotations"), "/metadata/annotations"},
		{"ConfigMap finalizers", maps, configMap, meta, in("finalizers"), "/metadata/finalizers"},
		{"ConfigMap ownerReferences", maps, configMap, meta, in("ownerReferences"), "/metadata/ownerReferences"},
		{"ConfigMap fieldsV1", maps, configMap, meta, `"metadata":{"name":"NAME","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":VALUE}]}`, "/metadata/managedFields"},
		{"Pod env", pods, pod, container, inContainer("env"), "/spec/containers/0/env"},
		{"Pod ports", pods, pod, container, inContainer("ports"), "/spec/containers/0/ports"},
		{"Pod args", pods, pod, container, inContainer("args"), "/spec/containers/0/args"},
		{"Pod containers", pods, pod, container, meta + `,"spec":{"containers":VALUE}`, "/spec/containers"},
		{"Pod volumes", pods, pod, container, meta + `,"spec":{"containers":[{"name":"c","image":"i"}],"volumes":VALUE}`, "/spec/volumes"},
		{"Pod tolerations", pods, pod, container, meta + `,"spec":{"containers":[{"name":"c","image":"i"}],"tolerations":VALUE}`, "/spec/tolerations"},
		{"ClusterRole rules", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",`, meta, meta + `,"rules":[{"apiGroups":[""],"verbs":["get"],"resources":VALUE}]`, "/rules"},
		{"NetworkPolicy selector", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy",`, meta + `,"spec":{"podSelector":{}}`, meta + `,"spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"In","values":VALUE}]}}`, "/spec/podSelector/matchExpressions"},
		{"Thing free", customs, thing, meta, inThing("free"), "/spec"},
		{"Thing defaulted list", customs, thing, meta, inThing("defaulted"), "/spec"},
		{"Thing set", customs, thing, meta, inThing("set"), "/spec"},
		{"Thing list map", customs, thing, meta, inThing("map"), "/spec"},
		{"Thing CEL", customs, thing, meta, inThing("ruled"), "/spec"},
		{"Thing pruned", customs, thing, meta, inThing("zzz"), "/spec"},
		{"Thing annotations", customs, thing, meta, in("annotations"), "/metadata/annotations"},
		{"CRD properties", crds, crd, anyThing, schema(`{"type":"object","properties":VALUE}`), "/spec/versions/0/schema/openAPIV3Schema/properties"},
		{"CRD default", crds, crd, anyThing, schema(`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":VALUE}}}`), "/spec/versions/0/schema/openAPIV3Schema/default"},
		{"CRD enum", crds, crd, anyThing, schema(`{"type":"object","properties":{"a":{"type":"string","enum":VALUE}}}`), "/spec/versions/0/schema/openAPIV3Schema/enum"},
		{"CRD rules", crds, crd, anyThing, schema(`{"type":"object","properties":{"a":{"type":"string","x-kubernetes-validations":VALUE}}}`), "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations"},
	}
}()

// thingsCRD has a field for each way in which a schema treats a list.
const thingsCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{"group":"example.com",
"scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"free":{"x-kubernetes-preserve-unknown-fields":true},
"defaulted":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"a":{"type":"string","default":"a"},"b":{"type":"object","default":{},"properties":{"c":{"type":"integer","default":3}}}}}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
"ruled":{"type":"array","maxItems":1000000,"items":{"type":"object","properties":{"name":{"type":"string","maxLength":64},"value":{"type":"string","maxLength":64}},"x-kubernetes-validations":[{"rule":"!has(self.name) || self.name != ''"}]}}
}}}}}}]}}`

// shape makes a JSON value of about size bytes.
type costShape struct {
	name string
	make func(size int) string
}

// fill repeats what f returns for 0, 1, …, separated by commas, up to size bytes.
func fill(size int, f func(i int) string) string {
	b := &strings.Builder{}
	b.Grow(size)
	for i := 0; b.Len() < size; i++ {
		s := f(i)
		if i > 0 {
			if b.Len()+len(s) >= size {
				break
			}
			b.WriteByte(',')
		}
		b.WriteString(s)
	}
	return b.String()
}

func nest(depth int, open, inside, closing string) string {
	return strings.Repeat(open, depth) + inside + strings.Repeat(closing, depth)
}

const deepest = 9900 // below the limit of 10,000, also inside an object

var costShapes = []costShape{
	{"deep object", func(size int) string { return nest(min(deepest, size/6), `{"a":`, "1", "}") }},
	{"deep array", func(size int) string { return nest(min(deepest, size/2), "[", "", "]") }},
	{"many deep objects", func(size int) string {
		deep := nest(min(deepest-1, size/6), `{"a":`, "1", "}")
		return "{" + fill(size, func(i int) string { return fmt.Sprintf(`"k%d":%s`, i, deep) }) + "}"
	}},
	{"many deep arrays", func(size int) string {
		deep := nest(min(deepest-1, size/2), "[", "", "]")
		return "[" + fill(size, func(int) string { return deep }) + "]"
	}},
	{"half deep objects", func(size int) string {
		deep := nest(min(500, size/6), `{"a":`, "1", "}")
		return "{" + fill(size, func(i int) string { return fmt.Sprintf(`"k%d":%s`, i, deep) }) + "}"
	}},
	{"deep schema", func(size int) string {
		return `{"p":` + nest(min(deepest/3, size/38), `{"type":"object","properties":{"p":`, `{"type":"string"}`, "}}") + "}"
	}},
	{"wide schema", func(size int) string {
		return "{" + fill(size, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + "}"
	}},
	{"wide object", func(size int) string {
		return "{" + fill(size, func(i int) string { return fmt.Sprintf(`"k%d":"v"`, i*7919%1000003) }) + "}"
	}},
	{"one key", func(size int) string { return "{" + fill(size, func(int) string { return `"k":"v"` }) + "}" }},
	{"numbers", func(size int) string { return "[" + fill(size, func(int) string { return "1" }) + "]" }},
	{"empty objects", func(size int) string { return "[" + fill(size, func(int) string { return "{}" }) + "]" }},
	{"empty arrays", func(size int) string { return "[" + fill(size, func(int) string { return "[]" }) + "]" }},
	{"nulls", func(size int) string { return "[" + fill(size, func(int) string { return "null" }) + "]" }},
	{"strings", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`"s%d"`, i) }) + "]"
	}},
	{"domain strings", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`"e.com/s%d"`, i) }) + "]"
	}},
	{"named objects", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"name":"n%d","value":"v"}`, i) }) + "]"
	}},
	{"equal objects", func(size int) string {
		return "[" + fill(size, func(int) string { return `{"name":"n","value":"v"}` }) + "]"
	}},
	{"owners", func(size int) string {
		return "[" + fill(size, func(i int) string {
			return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","name":"p%d","uid":"u%d"}`, i, i)
		}) + "]"
	}},
	{"ports", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"containerPort":%d}`, i%65535+1) }) + "]"
	}},
	{"containers", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"name":"n%d","image":"i"}`, i) }) + "]"
	}},
	{"volumes", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"name":"n%d","emptyDir":{}}`, i) }) + "]"
	}},
	{"tolerations", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"key":"n%d","operator":"Exists"}`, i) }) + "]"
	}},
	{"rules", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"rule":"self != 'v%d'"}`, i) }) + "]"
	}},
	{"a long rule", func(size int) string {
		return `[{"rule":"` + strings.Join(strings.Split(fill(size, func(i int) string { return fmt.Sprintf(`self != 'v%d'`, i) }), ","), " && ") + `"}]`
	}},
	{"a deep rule", func(size int) string { return `[{"rule":"` + nest(size/2, "(", "true", ")") + `"}]` }},
	{"unknown fields", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"z%d":1}`, i) }) + "]"
	}},
	{"long string", func(size int) string { return `"` + strings.Repeat("s", size) + `"` }},
	{"long value", func(size int) string { return `{"a":"` + strings.Repeat("s", size) + `"}` }},
	{"escapes", func(size int) string { return `{"a":"` + strings.Repeat(`\u0001`, size/6) + `"}` }},
	{"long number", func(size int) string { return `{"a":` + strings.Repeat("9", size) + `}` }},
	{"field set", func(size int) string {
		return "{" + fill(size, func(i int) string { return fmt.Sprintf(`"f:k%d":{}`, i) }) + "}"
	}},
	{"deletions", func(size int) string {
		return "[" + fill(size, func(i int) string { return fmt.Sprintf(`{"$patch":"delete","name":"n%d"}`, i) }) + "]"
	}},
}

// costCases is the product of shapes, places and verbs, and what has no such form.
func costCases() []costCase {
	var out []costCase
	for _, p := range costPlaces {
		for _, s := range costShapes {
			doc := func(size int) string { return "{" + p.kind + strings.Replace(p.doc, "VALUE", s.make(size), 1) + "}" }
			object := "{" + p.kind + p.base + "}"
			one := p.path + "/NAME"
			if strings.Contains(p.base, "NAME.costs.example") {
				one += ".costs.example"
			}
			name := p.name + ": " + s.name
			out = append(out,
				costCase{name: "create " + name, method: http.MethodPost, path: p.path, media: "application/json", body: doc},
				costCase{name: "create YAML " + name, method: http.MethodPost, path: p.path, media: "application/yaml", body: doc},
				costCase{"update " + name, http.MethodPut, one, "application/json", object, p.path, doc},
				costCase{"merge " + name, http.MethodPatch, one, "application/merge-patch+json", object, p.path, doc},
				costCase{"strategic " + name, http.MethodPatch, one, "application/strategic-merge-patch+json", object, p.path, doc},
				costCase{"apply " + name, http.MethodPatch, one + "?fieldManager=m&force=true", "application/apply-patch+yaml", object, p.path, doc},
				costCase{"JSON patch " + name, http.MethodPatch, one, "application/json-patch+json", object, p.path, func(size int) string {
					return `[{"op":"add","path":"` + p.pointer + `","value":` + s.make(size) + `}]`
				}},
			)
		}
	}
	return append(out, otherCosts()...)
}

// otherCosts has the cases that depend on what the patch does, on YAML, or on the query.
func otherCosts() []costCase {
	const (
		maps = "/api/v1/namespaces/default/configmaps"
		pods = "/api/v1/namespaces/default/pods"
	)
	list := func(s string) string { return "[" + s + "]" }
	steps := func(step func(i int) string) func(int) string {
		return func(size int) string {
			n := 0
			return list(fill(size, func(i int) string {
				if n++; n > 10000 {
					return strings.Repeat(" ", size)
				}
				return step(i)
			}))
		}
	}
	large := func(n int) string {
		return `{"apiVersion":"v1","kind":"ConfigMap",` + meta + `,"data":{` + fill(n, func(i int) string { return fmt.Sprintf(`"k%d":"v"`, i) }) + `}}`
	}
	listed := func(n int) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","finalizers":[` + fill(n, func(i int) string { return fmt.Sprintf(`"e.com/f%d"`, i) }) + `]}}`
	}
	envs := func(n int) string {
		return `{"apiVersion":"v1","kind":"Pod",` + meta + `,"spec":{"containers":[{"name":"c","image":"i","env":[` +
			fill(n, func(i int) string { return fmt.Sprintf(`{"name":"n%d","value":"v"}`, i) }) + `]}]}}`
	}
	const half = 400 << 10
	jsonPatch := func(name, before string, body func(int) string) costCase {
		return costCase{"JSON patch: " + name, http.MethodPatch, maps + "/NAME", "application/json-patch+json", before, maps, body}
	}
	strategic := func(name, path, before string, body func(int) string) costCase {
		return costCase{"strategic: " + name, http.MethodPatch, path + "/NAME", "application/strategic-merge-patch+json", before, path, body}
	}
	yaml := func(name string, body func(int) string) costCase {
		return costCase{name: "YAML: " + name, method: http.MethodPost, path: maps, media: "application/yaml", body: body}
	}
	get := func(name string, query func(int) string) costCase {
		return costCase{name: "list: " + name, method: http.MethodGet, path: maps, body: func(size int) string { return "?" + query(min(size, 900<<10)) }}
	}
	deepData := func(size int) string { return nest(min(deepest, size/6), `{"a":`, "1", "}") }
	return []costCase{
		jsonPatch("tests", large(half), steps(func(int) string { return `{"op":"test","path":"/data/k1","value":"v"}` })),
		jsonPatch("large tests", large(half), steps(func(int) string { return `{"op":"test","path":"/data","value":{}}` })),
		jsonPatch("adds", large(half), steps(func(i int) string { return fmt.Sprintf(`{"op":"add","path":"/data/a%d","value":"v"}`, i) })),
		jsonPatch("adds in front", listed(half), steps(func(i int) string {
			return fmt.Sprintf(`{"op":"add","path":"/metadata/finalizers/0","value":"e.com/a%d"}`, i)
		})),
		jsonPatch("removes in front", listed(half), steps(func(int) string { return `{"op":"remove","path":"/metadata/finalizers/0"}` })),
		jsonPatch("moves", large(half), steps(func(i int) string {
			return fmt.Sprintf(`{"op":"move","from":"/%s","path":"/%s"}`, []string{"data", "b"}[i%2], []string{"b", "data"}[i%2])
		})),
		jsonPatch("copies", large(1000), steps(func(int) string { return `{"op":"copy","from":"/data/k1","path":"/data/k2"}` })),
		jsonPatch("copies that double", large(1000), steps(func(i int) string { return `{"op":"copy","from":"","path":"/data/z"}` })),
		jsonPatch("large copies", large(half), steps(func(int) string { return `{"op":"copy","from":"/data","path":"/z"}` })),
		jsonPatch("deep paths", large(1000), func(size int) string {
			deep := deepData(size)
			return list(`{"op":"add","path":"/z","value":` + deep + `},` + fill(max(size-len(deep), 0), func(int) string {
				return `{"op":"test","path":"/z` + strings.Repeat("/a", min(deepest/2, size/6)) + `","value":1}`
			}))
		}),
		jsonPatch("large values", large(1000), func(size int) string {
			return list(fill(size, func(i int) string {
				return `{"op":"replace","path":"/data","value":{` + fill(size/20, func(i int) string { return fmt.Sprintf(`"k%d":"v"`, i) }) + `}}`
			}))
		}),
		jsonPatch("too many", large(1000), func(size int) string {
			return list(fill(size, func(int) string { return `{"op":"test","path":"/kind","value":"ConfigMap"}` }))
		}),
		jsonPatch("empty", large(1000), func(size int) string { return list(fill(size, func(int) string { return "{}" })) }),
		strategic("env onto env", pods, envs(half), func(size int) string {
			return `{"spec":{"containers":[{"name":"c","env":[` + fill(size, func(i int) string { return fmt.Sprintf(`{"name":"m%d","value":"v"}`, i) }) + `]}]}}`
		}),
		strategic("deletes", pods, envs(half), func(size int) string {
			return `{"spec":{"containers":[{"name":"c","env":[` + fill(size, func(i int) string { return fmt.Sprintf(`{"$patch":"delete","name":"m%d"}`, i) }) + `]}]}}`
		}),
		strategic("order", pods, envs(half), func(size int) string {
			return `{"spec":{"containers":[{"name":"c","$setElementOrder/env":[` + fill(size, func(i int) string { return fmt.Sprintf(`{"name":"n%d"}`, i) }) + `]}]}}`
		}),
		strategic("deleted primitives", maps, listed(half), func(size int) string {
			return `{"metadata":{"$deleteFromPrimitiveList/finalizers":[` + fill(size, func(i int) string { return fmt.Sprintf(`"e.com/g%d"`, i) }) + `]}}`
		}),
		strategic("order of primitives", maps, listed(half), func(size int) string {
			return `{"metadata":{"$setElementOrder/finalizers":[` + fill(size, func(i int) string { return fmt.Sprintf(`"e.com/f%d"`, i) }) + `]}}`
		}),
		strategic("retained keys", maps, large(half), func(size int) string {
			return `{"data":{"$retainKeys":[` + fill(size, func(i int) string { return fmt.Sprintf(`"k%d"`, i) }) + `]}}`
		}),
		yaml("deep by indent", func(size int) string { return "data:\n " + nest(min(deepest, size/2), "- ", "a", "") }),
		yaml("deep by lines", func(size int) string {
			b := &strings.Builder{}
			for i := 0; b.Len() < size && i < deepest; i++ {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}),
		yaml("aliases", func(size int) string {
			return "metadata: {name: NAME}\ndata: &a {a: b}\nz: [" + fill(size, func(int) string { return "*a" }) + "]\n"
		}),
		yaml("large alias", func(size int) string {
			return "metadata: {name: NAME}\ndata: &a {" + fill(size/2, func(i int) string { return fmt.Sprintf("k%d: v", i) }) + "}\nz: [" + fill(min(size/2, 200), func(int) string { return "*a" }) + "]\n"
		}),
		yaml("anchors", func(size int) string {
			return "metadata: {name: NAME}\nz: [" + fill(size, func(i int) string { return fmt.Sprintf("&a%d b", i) }) + "]\n"
		}),
		yaml("merges", func(size int) string {
			return "metadata: {name: NAME}\nx: &a {a: b}\nz: [" + fill(size, func(int) string { return "{<<: *a}" }) + "]\n"
		}),
		yaml("documents", func(size int) string { return strings.Repeat("---\n", size/4) }),
		yaml("comments", func(size int) string {
			return strings.Repeat("#\n", size/2) + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
		}),
		yaml("tags", func(size int) string {
			return "z: [" + fill(size, func(i int) string { return "!!str 1" }) + "]\n"
		}),
		yaml("question marks", func(size int) string { return strings.Repeat("? ", size/2) }),
		yaml("open brackets", func(size int) string { return strings.Repeat("{", size) }),
		yaml("quotes", func(size int) string { return `z: "` + strings.Repeat(`\n`, size/2) + `"` }),
		yaml("folded", func(size int) string { return "z: >\n" + strings.Repeat(" a\n\n", size/4) }),
		yaml("times and numbers", func(size int) string {
			return "z: [" + fill(size, func(i int) string { return "2001-01-01" }) + "]\n"
		}),
		get("label selector", func(size int) string {
			return "labelSelector=" + url.QueryEscape("a in ("+fill(size/2, func(i int) string { return fmt.Sprint("v", i) })+")")
		}),
		get("many requirements", func(size int) string {
			return "labelSelector=" + url.QueryEscape(fill(size/2, func(i int) string { return fmt.Sprint("k", i) }))
		}),
		get("open parentheses", func(size int) string { return "labelSelector=" + strings.Repeat("(", size) }),
		get("field selector", func(size int) string {
			return "fieldSelector=" + url.QueryEscape(fill(size/2, func(i int) string { return fmt.Sprint("metadata.name!=v", i) }))
		}),
		get("parameters", func(size int) string {
			return strings.ReplaceAll(fill(size, func(i int) string { return fmt.Sprint("p", i, "=") }), ",", "&")
		}),
		{name: "delete options: deep", method: http.MethodDelete, path: maps + "/NAME", media: "application/json", before: large(1000), beforePath: maps, body: deepData},
		{name: "delete options: YAML", method: http.MethodDelete, path: maps + "/NAME", media: "application/yaml", before: large(1000), beforePath: maps, body: func(size int) string {
			return "[" + fill(size, func(int) string { return "[]" }) + "]"
		}},
		{name: "review: extra", method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", media: "application/json", body: func(size int) string {
			return `{"spec":{"user":"u","groups":[` + fill(size, func(i int) string { return fmt.Sprintf(`"g%d"`, i) }) + `],"resourceAttributes":{"verb":"get","resource":"pods"}}}`
		}},
		protobufCost("empty containers", "Pod", pods, []byte{0x12, 0}, 2),
		protobufCost("empty ports", "Pod", pods, []byte{0x32, 0}, 2, 2),
		protobufCost("empty arguments", "Pod", pods, []byte{0x22, 0}, 2, 2),
		protobufCost("empty owners", "ConfigMap", maps, []byte{0x6a, 0}, 1),
		{name: "create a policy: a long expression", method: http.MethodPost, path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", media: "application/json", body: func(size int) string {
			return policyOf(`{"expression":"` + strings.ReplaceAll(fill(size, func(i int) string { return fmt.Sprintf("object != '%d'", i) }), ",", " && ") + `"}`)
		}},
		{name: "create a policy: many expressions", method: http.MethodPost, path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", media: "application/json", body: func(size int) string {
			return policyOf(fill(size, func(i int) string { return fmt.Sprintf(`{"expression":"object != '%d'"}`, i) }))
		}},
	}
}

// protobufCost is a create with a message that repeats an empty field inside the fields with the given numbers.
func protobufCost(name, kind, path string, repeated []byte, at ...int) costCase {
	return costCase{name: "protobuf: " + name, method: http.MethodPost, path: path, media: "application/vnd.kubernetes.protobuf", body: func(size int) string {
		message := bytes.Repeat(repeated, size/len(repeated))
		for i, number := range slices.Backward(at) {
			message = append(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(message))), message...)
			if i == 0 { // the object, with metadata.name
				message = append([]byte("\x0a\x06\x0a\x04NAME"), message...)
			}
		}
		envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: message}).Marshal()
		if err != nil {
			panic(err)
		}
		return "k8s\x00" + string(envelope)
	}}
}

func policyOf(validations string) string {
	return `{"metadata":{"name":"NAME"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},"validations":[` + validations + `]}}`
}
