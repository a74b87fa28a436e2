package cache

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Root is the prefix of all keys that hold API objects: o/GROUP/RESOURCE/[NAMESPACE/]NAME, where the core group is called
// "core".
const Root = "o/"

// Prefix returns the start of the keys of a resource.
func Prefix(r schema.GroupResource) string {
	group := r.Group
	if group == "" {
		group = "core"
	}
	return Root + group + "/" + r.Resource + "/"
}

// StoreKey returns the key of an object in the store.
func StoreKey(r schema.GroupResource, key objects.Key) string { return Prefix(r) + pathOf(key) }

// pathOf returns what follows the prefix in an object's key.
func pathOf(key objects.Key) string {
	if key.Namespace == "" {
		return escape(key.Name)
	}
	return key.Namespace + "/" + escape(key.Name)
}

// keyOf is the inverse of pathOf.
func keyOf(path string) objects.Key {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return objects.Key{Namespace: path[:i], Name: unescape(path[i+1:])}
	}
	return objects.Key{Name: unescape(path)}
}

// PrefixOf returns the prefix of the resource that a store key belongs to; "" for the key of no object.
func PrefixOf(key string) string {
	slashes := 0
	for i := range len(key) {
		if key[i] == '/' {
			if slashes++; slashes == 3 {
				return key[:i+1]
			}
		}
	}
	return ""
}

// ResourceOf returns the resource that a store key belongs to; zero for the key of no object.
func ResourceOf(key string) schema.GroupResource {
	group, resource, ok := strings.Cut(strings.TrimPrefix(PrefixOf(key), Root), "/")
	if !ok {
		return schema.GroupResource{}
	}
	if group == "core" {
		group = ""
	}
	return schema.GroupResource{Group: group, Resource: strings.TrimSuffix(resource, "/")}
}

// escape encodes a name for a store key, which is of printable ASCII. A name has neither '/' nor '%' (the rule for path segments),
// so most names are their own escape.
func escape(name string) string {
	if plain(name) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c > ' ' && c < 0x7f && c != '%' && c != '/' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func plain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == '%' || c == '/' {
			return false
		}
	}
	return true
}

func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'A' + 10
}
