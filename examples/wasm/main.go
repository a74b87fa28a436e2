//go:build wasip1

// Command wasm is a scheduler plugin as a WebAssembly module. It filters out the nodes without the label in its configuration, KEY=VALUE,
// and scores the others by the number at the end of their name. Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o disktype.wasm .
package main

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

func main() {} // a library: the host calls the exported functions

// The host writes its answers to a buffer, and returns their sizes. An answer that is larger than the limit is not written.

//go:wasmimport k8s.io/scheduler get_config
func hostConfig(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
func hostNodeName(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api node
func hostNode(name unsafe.Pointer, size uint32, buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler result.status_reason
func setReason(text unsafe.Pointer, size uint32)

// Codes of statuses.
const (
	success       = 0
	unschedulable = 2
)

//go:wasmexport filter
func filter() uint32 {
	key, value, _ := strings.Cut(string(read(hostConfig)), "=")
	name := slices.Clone(read(hostNodeName))
	node := read(func(buf unsafe.Pointer, limit uint32) uint32 {
		return hostNode(unsafe.Pointer(&name[0]), uint32(len(name)), buf, limit)
	})
	if labels(node)[key] == value {
		return success
	}
	reason := []byte("node(s) without the label " + key + "=" + value)
	setReason(unsafe.Pointer(&reason[0]), uint32(len(reason)))
	return unschedulable
}

// score returns the score and the code in one number.
//
//go:wasmexport score
func score() uint64 {
	name := string(read(hostNodeName))
	number, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		number = 0
	}
	return uint64(number)<<32 | success
}

// buf holds the host's answers. The garbage collector gets no time during calls, so they should allocate little.
var buf = make([]byte, 4096)

// read returns an answer of the host, which the next call overwrites.
func read(f func(buf unsafe.Pointer, limit uint32) uint32) []byte {
	size := f(unsafe.Pointer(&buf[0]), uint32(len(buf)))
	if int(size) > len(buf) {
		buf = make([]byte, size)
		f(unsafe.Pointer(&buf[0]), size)
	}
	return buf[:size]
}

// labels returns the labels of a Node: field 11 of its metadata, which is field 1.
func labels(node []byte) map[string]string {
	out := map[string]string{}
	each(node, func(number protowire.Number, metadata []byte) {
		if number != 1 {
			return
		}
		each(metadata, func(number protowire.Number, entry []byte) {
			if number != 11 {
				return
			}
			var pair [3]string
			each(entry, func(number protowire.Number, text []byte) {
				if number <= 2 {
					pair[number] = string(text)
				}
			})
			out[pair[1]] = pair[2]
		})
	})
	return out
}

// each calls f for the fields of a message that are messages, strings or bytes.
func each(message []byte, f func(protowire.Number, []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			f(number, value)
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return
		}
		message = message[n:]
	}
}
