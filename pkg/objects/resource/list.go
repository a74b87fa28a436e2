package resource

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unlimited is the size of lists that have no limit.
const unlimited = -1

// items checks each item of a list. For a list that is too long it reports only that, to bound the work.
func items[T any](list []T, most int, at *field.Path, check func(item *T, at *field.Path) field.ErrorList) field.ErrorList {
	if most != unlimited && len(list) > most {
		return field.ErrorList{field.TooMany(at, len(list), most)}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, check(&list[i], at.Index(i))...)
	}
	return errs
}

// set is like items, for a list with unique keys.
func set[T any, K comparable](list []T, most int, at *field.Path, key func(item *T) K, check func(item *T, at *field.Path) field.ErrorList) field.ErrorList {
	errs := items(list, most, at, check)
	if most != unlimited && len(list) > most {
		return errs
	}
	seen := map[K]bool{}
	for i := range list {
		k := key(&list[i])
		if seen[k] {
			errs = append(errs, field.Duplicate(at.Index(i), k))
		}
		seen[k] = true
	}
	return errs
}

func itself(s *string) string { return *s }

// entries checks the keys and values of a map, sorted by key. In paths keys are shortened to longest.
func entries[K ~string, V any](m map[K]V, most, longest int, at *field.Path, key func(K, *field.Path) field.ErrorList, value func(V, *field.Path) field.ErrorList) field.ErrorList {
	if most != unlimited && len(m) > most {
		return field.ErrorList{field.TooMany(at, len(m), most)}
	}
	var errs field.ErrorList
	for _, k := range slices.Sorted(maps.Keys(m)) {
		errs = append(errs, key(k, at)...)
		errs = append(errs, value(m[k], at.Key(shorten(string(k), longest)))...)
	}
	return errs
}

// shorten removes the middle of a text that is too long.
func shorten(s string, longest int) string {
	longest = max(longest, 16)
	if len(s) <= longest {
		return s
	}
	const cut = "..."
	left := longest - len(cut)
	return s[:(left+1)/2] + cut + s[len(s)-left/2:]
}
