package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

//go:embed definitions/*.gz
var packed embed.FS

// definitionsHash is the hash of all embedded files.
var definitionsHash = sync.OnceValue(func() string {
	h := sha512.New()
	entries, err := fs.ReadDir(packed, "definitions") // sorted
	if err != nil {
		panic("openapi: " + err.Error())
	}
	for _, e := range entries {
		raw, err := packed.ReadFile("definitions/" + e.Name())
		if err != nil {
			panic("openapi: " + err.Error())
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil))
})

const refPrefix = "#/components/schemas/"

var refs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]+)"`) })

// library holds the embedded definitions, and collects those that a document uses, with their references.
type library struct {
	packages map[string]map[string]json.RawMessage // unpacked so far
	found    map[string]json.RawMessage
}

func newLibrary() *library {
	return &library{packages: map[string]map[string]json.RawMessage{}, found: map[string]json.RawMessage{}}
}

// used returns the collected definitions.
func (l *library) used() map[string]json.RawMessage { return l.found }

// use collects a definition and its references. ok is false if there is none of that name.
func (l *library) use(name string) (ok bool) {
	if _, ok := l.found[name]; ok {
		return true
	}
	raw, ok := l.get(name)
	if !ok {
		return false
	}
	l.put(name, raw)
	return true
}

// put collects a definition that is not embedded, and its references.
func (l *library) put(name string, raw json.RawMessage) {
	l.found[name] = raw
	for _, m := range refs().FindAllSubmatch(raw, -1) {
		l.use(string(m[1]))
	}
}

func (l *library) get(name string) (json.RawMessage, bool) {
	i := strings.LastIndex(name, ".")
	if i < 0 {
		return nil, false
	}
	pkg := name[:i]
	if _, ok := l.packages[pkg]; !ok {
		l.packages[pkg] = unpack(pkg)
	}
	raw, ok := l.packages[pkg][name]
	return raw, ok
}

// unpack returns the definitions of a Go package; nil if there is no file for it. A test checks that the files are valid.
func unpack(pkg string) map[string]json.RawMessage {
	raw, err := packed.ReadFile("definitions/" + pkg + ".json.gz")
	if err != nil {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		panic("openapi: " + pkg + ": " + err.Error())
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		panic("openapi: " + pkg + ": " + err.Error())
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(plain, &all); err != nil {
		panic("openapi: " + pkg + ": " + err.Error())
	}
	return all
}

// fields returns the properties of a definition as query parameters, without the kind and version of the object.
func (l *library) fields(name string) []parameter {
	raw, ok := l.get(name)
	if !ok {
		return nil
	}
	var d struct {
		Properties map[string]struct {
			Description string `json:"description"`
			Type        string `json:"type"`
			Items       *struct {
				Type string `json:"type"`
			} `json:"items"`
		} `json:"properties"`
	}
	if json.Unmarshal(raw, &d) != nil {
		return nil
	}
	skip := map[string]bool{"kind": true, "apiVersion": true, "preconditions": true}
	var list []parameter
	for name, p := range d.Properties {
		if skip[name] {
			continue
		}
		kind := p.Type
		if kind == "array" && p.Items != nil {
			kind = p.Items.Type // such a parameter is repeated in the query
		}
		if kind == "" {
			kind = "string"
		}
		list = append(list, parameter{name: name, in: "query", text: p.Description, kind: kind})
	}
	return sorted(list)
}
