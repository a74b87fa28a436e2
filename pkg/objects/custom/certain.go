package custom

import (
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// certain vouches for values: those that it holds for valid surely meet a schema. Nearly all that is written does, and the
// library takes ten times as long to find that out, since it makes its checks anew for each value; it is asked about the
// others, and says what is wrong with them. So a certain may be wrong only in one direction: what it does not recognize, it
// does not vouch for.
type certain struct {
	never    bool // the schema says something that is the library's to understand
	types    jsonType
	nullable bool
	enum     map[string]bool // nil: all values may be

	fields   map[string]*certain
	required []string
	others   *certain // nil: other fields may be anything
	closed   bool     // there are no other fields
	size     span     // how many fields

	items  *certain // nil: they may be anything
	length span     // how many items

	chars   span
	pattern *regexp.Regexp // nil: none
	format  string

	least, most limit
	all, anyOf  []*certain // all vouch for the value; one does, unless there is none
}

// jsonType is a set of types; none of them is all of them.
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

// span is how many there may be of something.
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

// limit is how large or small a number may be.
type limit struct {
	at        float64
	set, open bool // open: not at itself
}

func limitOf(at *float64, open bool) limit {
	if at == nil {
		return limit{}
	}
	return limit{*at, true, open}
}

// exact is the largest number up to which all whole ones have a place among the floating ones.
const exact = 1 << 53

// plain reports whether a limit is a whole number that is compared without loss.
func (l limit) plain() bool { return !l.set || l.at == math.Trunc(l.at) && math.Abs(l.at) < exact }

// certainOf reads a schema; it is a tree, since schemas can't refer to themselves. nil vouches for everything.
func certainOf(s *apiextensions.JSONSchemaProps) *certain {
	if s == nil {
		return nil
	}
	c := &certain{
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

func (c *certain) readEnum(values []apiextensions.JSON) {
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

func (c *certain) readParts(s *apiextensions.JSONSchemaProps) {
	if len(s.Properties) > 0 {
		c.fields = make(map[string]*certain, len(s.Properties))
	}
	for name, field := range s.Properties {
		c.fields[name] = certainOf(&field)
	}
	if a := s.AdditionalProperties; a != nil {
		c.others, c.closed = certainOf(a.Schema), !a.Allows
	}
	if s.Items != nil {
		c.items = certainOf(s.Items.Schema)
	}
	for i := range s.AllOf {
		c.all = append(c.all, certainOf(&s.AllOf[i]))
	}
	for i := range s.AnyOf {
		c.anyOf = append(c.anyOf, certainOf(&s.AnyOf[i]))
	}
}

// vouches reports whether a value, as it is after decoding, surely meets the schema.
func (c *certain) vouches(x any) bool {
	switch {
	case c == nil:
		return true
	case c.never:
		return false
	case x == nil:
		return (c.nullable || c.types == 0) && c.enum == nil
	}
	for _, part := range c.all {
		if !part.vouches(x) {
			return false
		}
	}
	if len(c.anyOf) > 0 && !slices.ContainsFunc(c.anyOf, func(part *certain) bool { return part.vouches(x) }) {
		return false
	}
	switch x := x.(type) {
	case string:
		return c.types.has(aText) && c.vouchesText(x)
	case int64:
		return c.types.has(anInteger|aNumber) && c.enum == nil && -exact < x && x < exact && c.vouchesNumber(float64(x))
	case float64:
		return c.types.has(aNumber) && c.enum == nil && c.vouchesNumber(x)
	case bool:
		return c.types.has(aBoolean) && c.enum == nil
	case map[string]any:
		return c.types.has(anObject) && c.enum == nil && c.vouchesFields(x)
	case []any:
		return c.types.has(aList) && c.enum == nil && c.vouchesItems(x)
	}
	return false
}

func (c *certain) vouchesText(s string) bool {
	if c.enum != nil && !c.enum[s] || c.pattern != nil && !c.pattern.MatchString(s) {
		return false
	}
	if (c.chars.least > 0 || int64(len(s)) > c.chars.most) && !c.chars.holds(utf8.RuneCountInString(s)) {
		return false
	}
	return c.format == "" || !strfmt.Default.ContainsName(c.format) || strfmt.Default.Validates(c.format, s)
}

func (c *certain) vouchesNumber(n float64) bool {
	if c.format != "" && math.Abs(n) > math.MaxInt32 {
		return false // how large it may be is the library's to know
	}
	return (!c.least.set || c.least.at < n || c.least.at == n && !c.least.open) && (!c.most.set || n < c.most.at || n == c.most.at && !c.most.open)
}

func (c *certain) vouchesFields(fields map[string]any) bool {
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
		if !part.vouches(value) {
			return false
		}
	}
	return true
}

func (c *certain) vouchesItems(items []any) bool {
	if !c.length.holds(len(items)) {
		return false
	}
	for _, item := range items {
		if !c.items.vouches(item) {
			return false
		}
	}
	return true
}
