package stage

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// maxLength bounds the lists and strings that functions make.
const maxLength = 10_000

// generic are functions of sprig that depend on their arguments alone. Those that read the machine's environment, files, network or time,
// or draw random numbers, are left out.
var generic = template.FuncMap{
	"dict":     dict,
	"list":     func(v ...any) []any { return v },
	"tuple":    func(v ...any) []any { return v },
	"default":  orDefault,
	"empty":    empty,
	"coalesce": coalesce,
	"ternary": func(yes, no any, test bool) any {
		if test {
			return yes
		}
		return no
	},
	"fail": func(text string) (string, error) { return "", errors.New(text) },

	"lower": strings.ToLower, "upper": strings.ToUpper, "trim": strings.TrimSpace, "toString": toString,
	"trimAll":    func(cut, s string) string { return strings.Trim(s, cut) },
	"trimPrefix": func(p, s string) string { return strings.TrimPrefix(s, p) },
	"trimSuffix": func(p, s string) string { return strings.TrimSuffix(s, p) },
	"hasPrefix":  func(p, s string) bool { return strings.HasPrefix(s, p) },
	"hasSuffix":  func(p, s string) bool { return strings.HasSuffix(s, p) },
	"contains":   func(part, s string) bool { return strings.Contains(s, part) },
	"splitList":  func(sep, s string) []string { return strings.Split(s, sep) },
	"join":       join,
	"quote":      func(v ...any) string { return each(v, func(v any) string { return strconv.Quote(toString(v)) }) },
	"squote":     func(v ...any) string { return each(v, func(v any) string { return "'" + toString(v) + "'" }) },
	"b64enc":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"b64dec": func(s string) (string, error) {
		b, err := base64.StdEncoding.DecodeString(s)
		return string(b), err
	},
	"trunc": func(n int, s string) string {
		if n >= 0 && n < len(s) {
			return s[:n]
		}
		return s
	},

	"toJson": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
	"fromJson": func(s string) (v any, err error) {
		err = json.Unmarshal([]byte(s), &v)
		return v, err
	},

	"int": integer, "int64": integer, "atoi": integer, "float64": float,
	"add":  func(v ...any) int64 { return fold(v, func(a, b int64) int64 { return a + b }) },
	"sub":  func(a, b any) int64 { return integer(a) - integer(b) },
	"mul":  func(v ...any) int64 { return fold(v, func(a, b int64) int64 { return a * b }) },
	"div":  func(a, b any) (int64, error) { return divide(a, b, func(x, y int64) int64 { return x / y }) },
	"mod":  func(a, b any) (int64, error) { return divide(a, b, func(x, y int64) int64 { return x % y }) },
	"max":  func(v ...any) int64 { return fold(v, func(a, b int64) int64 { return max(a, b) }) },
	"min":  func(v ...any) int64 { return fold(v, func(a, b int64) int64 { return min(a, b) }) },
	"add1": func(v any) int64 { return integer(v) + 1 },

	"get":    func(m map[string]any, key string) any { return m[key] },
	"hasKey": func(m map[string]any, key string) bool { _, ok := m[key]; return ok },
	"keys":   sortedKeys,
	"has":    has,
	"first":  func(v any) (any, error) { return item(v, false) },
	"last":   func(v any) (any, error) { return item(v, true) },
	"kindIs": func(kind string, v any) bool { return v != nil && reflect.TypeOf(v).Kind().String() == kind },
}

// bounded are functions of sprig that could make results of any size. Each counts what it makes.
func (r *rendering) bounded() template.FuncMap {
	spend := func(n int) error {
		if n > maxLength {
			return fmt.Errorf("more than %d", maxLength)
		}
		if r.steps += n; r.steps > maxSteps {
			return errTooLong
		}
		return nil
	}
	return template.FuncMap{
		"until": func(n int) ([]int, error) {
			if err := spend(max(n, 0)); err != nil {
				return nil, err
			}
			out := make([]int, max(n, 0))
			for i := range out {
				out[i] = i
			}
			return out, nil
		},
		"repeat": func(n int, s string) (string, error) {
			if n = max(n, 0); len(s) > 0 && n > maxLength/len(s) {
				return "", spend(maxLength + 1)
			}
			return strings.Repeat(s, n), spend(n)
		},
		"replace": func(old, to, s string) (string, error) {
			n := strings.Count(s, old)
			if n*len(to) > maxOutput || len(s) > maxOutput {
				return "", errTooBig
			}
			return strings.ReplaceAll(s, old, to), spend(min(n, maxLength))
		},
		"indent":  func(n int, s string) (string, error) { return indent(n, s, "") },
		"nindent": func(n int, s string) (string, error) { return indent(n, s, "\n") },
	}
}

func indent(n int, s, before string) (string, error) {
	if n < 0 || n > 200 || (n+1)*strings.Count(s, "\n")+len(s) > maxOutput {
		return "", errTooBig
	}
	pad := strings.Repeat(" ", n)
	return before + pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}

func dict(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		var v any = ""
		if i+1 < len(pairs) {
			v = pairs[i+1]
		}
		out[toString(pairs[i])] = v
	}
	return out
}

func orDefault(def any, v ...any) any {
	if len(v) == 0 || empty(v[0]) {
		return def
	}
	return v[0]
}

func coalesce(v ...any) any {
	for _, one := range v {
		if !empty(one) {
			return one
		}
	}
	return nil
}

func empty(v any) bool {
	truth, ok := template.IsTrue(v)
	return !ok || !truth
}

func toString(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}

func each(values []any, f func(any) string) string {
	var out []string
	for _, v := range values {
		if v != nil {
			out = append(out, f(v))
		}
	}
	return strings.Join(out, " ")
}

// items returns the elements of a list of any type.
func items(v any) []any {
	list := reflect.ValueOf(v)
	if !list.IsValid() || list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil
	}
	out := make([]any, list.Len())
	for i := range out {
		out[i] = list.Index(i).Interface()
	}
	return out
}

func join(sep string, v any) string {
	var out []string
	for _, one := range items(v) {
		out = append(out, toString(one))
	}
	return strings.Join(out, sep)
}

func item(v any, last bool) (any, error) {
	list := items(v)
	switch {
	case len(list) == 0:
		return nil, nil
	case last:
		return list[len(list)-1], nil
	}
	return list[0], nil
}

func has(needle, v any) bool {
	return slices.ContainsFunc(items(v), func(one any) bool { return reflect.DeepEqual(one, needle) })
}

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func float(v any) float64 {
	f, err := strconv.ParseFloat(toString(v), 64)
	if err != nil {
		return 0
	}
	return f
}

func integer(v any) int64 {
	if n, err := strconv.ParseInt(toString(v), 10, 64); err == nil {
		return n
	}
	return int64(float(v))
}

func fold(v []any, f func(a, b int64) int64) int64 {
	if len(v) == 0 {
		return 0
	}
	out := integer(v[0])
	for _, one := range v[1:] {
		out = f(out, integer(one))
	}
	return out
}

func divide(a, b any, f func(x, y int64) int64) (int64, error) {
	if integer(b) == 0 {
		return 0, errors.New("division by zero")
	}
	return f(integer(a), integer(b)), nil
}
