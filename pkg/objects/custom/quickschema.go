package custom

import (
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// quickSchema is a fast, conservative check of values against a schema. A value that it accepts is valid. For a value that it does
// not accept, the library decides and returns the errors. Nearly all values are valid, and the
// library takes ten times as long, since it builds its validators for each value. A quickSchema may reject valid
// values, but never accepts an invalid one.
type quickSchema struct {
	never    bool // the schema has parts that only the library supports; accepts nothing
	types    jsonType
	nullable bool
	enum     map[string]bool // nil: any value

	fields   map[string]*quickSchema
	required []string
	others   *quickSchema // schema of additional properties; nil: any
	closed   bool         // no additional properties
	size     span         // number of fields

	items  *quickSchema // nil: any
	length span         // number of items

	chars   span
	pattern *regexp.Regexp // nil: none
	format  string

	least, most limit
	all, anyOf  []*quickSchema // all must accept the value, and one of anyOf unless it is empty
}

// jsonType is a set of types. The empty set means every type.
type jsonType uint8

const (
	anObject jsonType = 1 << iota
	aList
	aText
	anInteger
	aNumber
	aBoolean
)

var jsonTypes = map[string]jsonType{"object": anObject, "array": aList, "string": aText, "integer": anInteger, "number": aNumber, "boolean": aBoolean}

func (t jsonType) has(types jsonType) bool { return t == 0 || t&types != 0 }

// span is a range of counts.
type span struct{ least, most int64 }

func spanOf(least, most *int64) span {
	s := span{0, math.MaxInt64}
	if least != nil {
		s.least = *least
	}
	if most != nil {
		s.most = *most
	}
	return s
}

func (s span) holds(n int) bool { return s.least <= int64(n) && int64(n) <= s.most }

// limit is a minimum or maximum of a number.
type limit struct {
	at        float64
	set, open bool // open: exclusive
}

func limitOf(at *float64, open bool) limit {
	if at == nil {
		return limit{}
	}
	return limit{*at, true, open}
}

// exact is the limit below which a float64 represents every integer exactly.
const exact = 1 << 53

// plain reports whether a limit is unset or an integer that is compared exactly.
func (l limit) plain() bool { return !l.set || l.at == math.Trunc(l.at) && math.Abs(l.at) < exact }

// quickSchemaOf returns the quickSchema of s, which is a tree, since schemas have no references. A nil one accepts everything.
func quickSchemaOf(s *apiextensions.JSONSchemaProps) *quickSchema {
	if s == nil {
		return nil
	}
	c := &quickSchema{
		types: jsonTypes[s.Type], nullable: s.Nullable, required: s.Required, format: s.Format,
		size: spanOf(s.MinProperties, s.MaxProperties), length: spanOf(s.MinItems, s.MaxItems), chars: spanOf(s.MinLength, s.MaxLength),
		least: limitOf(s.Minimum, s.ExclusiveMinimum), most: limitOf(s.Maximum, s.ExclusiveMaximum),
	}
	if s.XIntOrString {
		c.types = anInteger | aText
	}
	c.never = (s.Type != "" || s.Format != "") && c.types == 0 || s.MultipleOf != nil || s.UniqueItems || s.Not != nil || len(s.OneOf) > 0 ||
		len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 || s.AdditionalItems != nil || s.Ref != nil ||
		s.Items != nil && len(s.Items.JSONSchemas) > 0 || !c.least.plain() || !c.most.plain()
	if s.Pattern != "" {
		var err error
		c.pattern, err = regexp.Compile(s.Pattern)
		c.never = c.never || err != nil
	}
	c.readEnum(s.Enum)
	c.readParts(s)
	return c
}

func (c *quickSchema) readEnum(values []apiextensions.JSON) {
	if len(values) == 0 {
		return
	}
	c.enum = make(map[string]bool, len(values))
	for _, value := range values {
		if text, ok := value.(string); ok {
			c.enum[text] = true
		}
	}
}

func (c *quickSchema) readParts(s *apiextensions.JSONSchemaProps) {
	if len(s.Properties) > 0 {
		c.fields = make(map[string]*quickSchema, len(s.Properties))
	}
	for name, field := range s.Properties {
		c.fields[name] = quickSchemaOf(&field)
	}
	if a := s.AdditionalProperties; a != nil {
		c.others, c.closed = quickSchemaOf(a.Schema), !a.Allows
	}
	if s.Items != nil {
		c.items = quickSchemaOf(s.Items.Schema)
	}
	for i := range s.AllOf {
		c.all = append(c.all, quickSchemaOf(&s.AllOf[i]))
	}
	for i := range s.AnyOf {
		c.anyOf = append(c.anyOf, quickSchemaOf(&s.AnyOf[i]))
	}
}

// accepts reports whether a decoded value certainly meets the schema.
func (c *quickSchema) accepts(x any) bool {
	switch {
	case c == nil:
		return true
	case c.never:
		return false
	case x == nil:
		return (c.nullable || c.types == 0) && c.enum == nil
	}
	for _, part := range c.all {
		if !part.accepts(x) {
			return false
		}
	}
	if len(c.anyOf) > 0 && !slices.ContainsFunc(c.anyOf, func(part *quickSchema) bool { return part.accepts(x) }) {
		return false
	}
	switch x := x.(type) {
	case string:
		return c.types.has(aText) && c.acceptsText(x)
	case int64:
		return c.types.has(anInteger|aNumber) && c.enum == nil && -exact < x && x < exact && c.acceptsNumber(float64(x))
	case float64:
		return c.types.has(aNumber) && c.enum == nil && c.acceptsNumber(x)
	case bool:
		return c.types.has(aBoolean) && c.enum == nil
	case map[string]any:
		return c.types.has(anObject) && c.enum == nil && c.acceptsFields(x)
	case []any:
		return c.types.has(aList) && c.enum == nil && c.acceptsItems(x)
	}
	return false
}

func (c *quickSchema) acceptsText(s string) bool {
	if c.enum != nil && !c.enum[s] || c.pattern != nil && !c.pattern.MatchString(s) {
		return false
	}
	if (c.chars.least > 0 || int64(len(s)) > c.chars.most) && !c.chars.holds(utf8.RuneCountInString(s)) {
		return false
	}
	return c.format == "" || !strfmt.Default.ContainsName(c.format) || strfmt.Default.Validates(c.format, s)
}

func (c *quickSchema) acceptsNumber(n float64) bool {
	if c.format != "" && math.Abs(n) > math.MaxInt32 {
		return false // only the library checks the range
	}
	return (!c.least.set || c.least.at < n || c.least.at == n && !c.least.open) && (!c.most.set || n < c.most.at || n == c.most.at && !c.most.open)
}

func (c *quickSchema) acceptsFields(fields map[string]any) bool {
	if !c.size.holds(len(fields)) {
		return false
	}
	for _, name := range c.required {
		if _, ok := fields[name]; !ok {
			return false
		}
	}
	for name, value := range fields {
		part, known := c.fields[name]
		if !known {
			if c.closed {
				return false
			}
			part = c.others
		}
		if !part.accepts(value) {
			return false
		}
	}
	return true
}

func (c *quickSchema) acceptsItems(items []any) bool {
	if !c.length.holds(len(items)) {
		return false
	}
	for _, item := range items {
		if !c.items.accepts(item) {
			return false
		}
	}
	return true
}
