package custom

import "time"

// canonical reports whether a round trip through ObjectMeta would leave the metadata unchanged:
// it has known fields of the right types, none of them empty. Nearly all metadata is canonical, and the check costs a small part of
// the round trip. It returns false in doubt.
func canonical(metadata map[string]any) bool {
	for name, value := range metadata {
		is := metadataFields[name]
		if is == nil || !is(value) {
			return false
		}
	}
	return true
}

// metadataFields has the checks of the fields of ObjectMeta.
var metadataFields = map[string]func(any) bool{
	"name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
	"generation":                 func(v any) bool { n, ok := v.(int64); return ok && n != 0 },
	"deletionGracePeriodSeconds": func(v any) bool { _, ok := v.(int64); return ok },
	"creationTimestamp":          moment, "deletionTimestamp": moment,
	"labels": texts, "annotations": texts,
	"finalizers":      func(v any) bool { return each(v, anyText) },
	"ownerReferences": func(v any) bool { return each(v, owner) },
	"managedFields":   func(v any) bool { return each(v, managed) },
}

func text(v any) bool {
	s, ok := v.(string)
	return ok && s != ""
}

func anyText(v any) bool {
	_, ok := v.(string)
	return ok
}

func flag(v any) bool {
	_, ok := v.(bool)
	return ok
}

// moment reports whether v is a time in whole seconds, as the server writes it.
func moment(v any) bool {
	s, ok := v.(string)
	if !ok || len(s) != len("2006-01-02T15:04:05Z") || s[len(s)-1] != 'Z' {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && !t.IsZero()
}

func texts(v any) bool {
	m, ok := v.(map[string]any)
	for _, value := range m {
		if !anyText(value) {
			return false
		}
	}
	return ok && len(m) > 0
}

// each reports whether v is a list that is not empty, and is returns true for each item.
func each(v any, is func(any) bool) bool {
	list, ok := v.([]any)
	for _, value := range list {
		if !is(value) {
			return false
		}
	}
	return ok && len(list) > 0
}

func owner(v any) bool {
	m, ok := v.(map[string]any)
	for name, value := range m {
		switch name {
		case "apiVersion", "kind", "name", "uid":
			ok = ok && anyText(value)
		case "controller", "blockOwnerDeletion":
			ok = ok && flag(value)
		default:
			return false
		}
	}
	return ok && m["apiVersion"] != nil && m["kind"] != nil && m["name"] != nil && m["uid"] != nil
}

func managed(v any) bool {
	m, ok := v.(map[string]any)
	for name, value := range m {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = ok && text(value)
		case "time":
			ok = ok && moment(value)
		case "fieldsV1":
			ok = ok && sets(value)
		default:
			return false
		}
	}
	return ok
}

// sets reports whether v consists of objects only, as a field set does.
func sets(v any) bool {
	m, ok := v.(map[string]any)
	for _, value := range m {
		if !sets(value) {
			return false
		}
	}
	return ok
}
