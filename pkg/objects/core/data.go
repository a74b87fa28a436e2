package core

import (
	"bytes"
	"maps"
)

func sameBytes(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
