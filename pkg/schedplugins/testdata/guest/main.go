//go:build wasip1

// Command guest is a WebAssembly module with the functions from prefilter to postbind. It notes its calls for a pod in its memory, and writes
// the notes to an Event at the end. It lets the pod "waits" wait in permit. The pod "k-UID" rejects the waiting pod of that UID.
package main

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"unsafe"
)

func main() {}

//go:wasmimport k8s.io/scheduler currentPod
func hostPod(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
func hostNodeName(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api node
func hostNode(name unsafe.Pointer, size uint32, buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api nodeList
func hostNodes(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler handle.eventrecorder.eventf
func hostEvent(text unsafe.Pointer, size uint32)

//go:wasmimport k8s.io/scheduler handle.get_waiting_pod
func hostWaiting(uid unsafe.Pointer, size uint32, buf unsafe.Pointer, limit uint32)

//go:wasmimport k8s.io/scheduler handle.reject_waiting_pod
func hostReject(uid unsafe.Pointer, size uint32, buf unsafe.Pointer, limit uint32)

// Codes of statuses.
const (
	success = 0
	wait    = 4
	skip    = 5
)

var (
	buf   = make([]byte, 64<<10)
	notes []string // of the calls for the present pod
)

//go:wasmexport prefilter
func prefilter() uint32 {
	name, _ := pod()
	notes = []string{"prefilter " + name}
	return success
}

//go:wasmexport reserve
func reserve() uint32 { return note("reserve " + nodeName()) }

//go:wasmexport permit
func permit() uint64 {
	note("permit")
	if name, _ := pod(); name == "waits" {
		event("Waiting")
		return wait<<32 | 900_000
	}
	return success
}

//go:wasmexport prebind
func prebind() uint32 {
	note("prebind")
	name := []byte(nodeName())
	if hostNode(unsafe.Pointer(&name[0]), uint32(len(name)), unsafe.Pointer(&buf[0]), uint32(len(buf))) > 0 {
		note("node")
	}
	if hostNodes(unsafe.Pointer(&buf[0]), uint32(len(buf))) > 0 {
		note("nodes")
	}
	if pod, _ := pod(); strings.HasPrefix(pod, "k-") {
		for _, uid := range [][]byte{[]byte(pod[len("k-"):]), []byte("none")} {
			hostWaiting(unsafe.Pointer(&uid[0]), uint32(len(uid)), unsafe.Pointer(&buf[0]), uint32(len(buf)))
			waiting, _ := parse(buf)
			note("waiting " + waiting)
			hostReject(unsafe.Pointer(&uid[0]), uint32(len(uid)), unsafe.Pointer(&buf[0]), 8)
			note("rejected " + string('0'+byte(binary.LittleEndian.Uint64(buf))))
		}
	}
	return success
}

//go:wasmexport bind
func bind() uint32 {
	note("bind")
	return skip
}

//go:wasmexport postbind
func postbind() {
	note("postbind")
	event("Bound")
}

//go:wasmexport unreserve
func unreserve() {
	note("unreserve")
	event("Unreserved")
}

func note(text string) uint32 {
	notes = append(notes, text)
	return success
}

func event(reason string) {
	name, uid := pod()
	text, err := json.Marshal(map[string]any{
		"RegardingReference": map[string]string{"Kind": "Pod", "APIVersion": "v1", "Namespace": "default", "Name": name, "UID": uid},
		"RelatedReference":   map[string]string{}, "Eventtype": "Normal", "Reason": reason, "Action": "Test", "Note": strings.Join(notes, ", "),
	})
	if err != nil {
		panic(err)
	}
	hostEvent(unsafe.Pointer(&text[0]), uint32(len(text)))
}

func nodeName() string { return string(buf[:hostNodeName(unsafe.Pointer(&buf[0]), uint32(len(buf)))]) }

// pod returns the name and the UID of the present pod.
func pod() (name, uid string) {
	return parse(buf[:hostPod(unsafe.Pointer(&buf[0]), uint32(len(buf)))])
}

// parse returns the name and the UID of a pod: fields 1 and 5 of its metadata, which is field 1. It ends at a zero.
func parse(message []byte) (name, uid string) {
	metadata := fields(message)[1]
	return string(fields(metadata)[1]), string(fields(metadata)[5])
}

// fields returns the fields of a message that are messages, strings or bytes.
func fields(message []byte) map[uint64][]byte {
	out := map[uint64][]byte{}
	for len(message) > 0 && message[0] != 0 {
		tag, n := binary.Uvarint(message)
		size, m := binary.Uvarint(message[n:])
		message = message[n+m:]
		if tag&7 == 2 {
			out[tag>>3] = message[:size]
			message = message[size:]
		}
	}
	return out
}
