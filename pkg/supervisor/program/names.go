package program

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// nameserver is how this machine, or the container, finds names: its resolv.conf. It asks for IPv4 addresses over UDP. Package net initialises too
// late (see package early).
type nameserver struct {
	address  [4]byte
	port     int
	searches []string
	ndots    int
}

// answerTime bounds the wait for an answer.
const answerTime = 5 // seconds

var errNoName = errors.New("no such name")

// readNameserver reads a resolv.conf.
func readNameserver(path string) (nameserver, error) {
	n := nameserver{address: [4]byte{127, 0, 0, 1}, port: 53, ndots: 1}
	b, err := os.ReadFile(path)
	if err != nil {
		return n, err
	}
	found := false
	for line := range strings.Lines(string(b)) {
		switch words := strings.Fields(line); {
		case len(words) < 2:
		case words[0] == "nameserver" && !found:
			if address, ok := parseIPv4(words[1]); ok {
				n.address, found = address, true
			}
		case words[0] == "search":
			n.searches = words[1:]
		case words[0] == "options":
			for _, option := range words[1:] {
				if text, ok := strings.CutPrefix(option, "ndots:"); ok {
					n.ndots, _ = strconv.Atoi(text) // 0, if it is no number
				}
			}
		}
	}
	return n, nil
}

func parseIPv4(text string) (address [4]byte, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != len(address) {
		return address, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return address, false
		}
		address[i] = byte(n)
	}
	return address, true
}

// candidates returns the full names to ask for, in their order.
func (n nameserver) candidates(name string) []string {
	if full, ok := strings.CutSuffix(name, "."); ok {
		return []string{full}
	}
	var all []string
	for _, s := range n.searches {
		all = append(all, name+"."+s)
	}
	if strings.Count(name, ".") >= n.ndots {
		return append([]string{name}, all...)
	}
	return append(all, name)
}

// resolve returns the addresses of the first candidate that has some. The error of a name that does not exist is errNoName.
func (n nameserver) resolve(name string) ([]string, error) {
	for _, full := range n.candidates(name) {
		question, err := newQuestion(full)
		if err != nil {
			return nil, err
		}
		answer, err := n.ask(question)
		if err != nil {
			return nil, err
		}
		if addresses, err := addressesIn(answer, len(question)); err != nil || len(addresses) > 0 {
			return addresses, err
		}
	}
	return nil, errNoName
}

const (
	headerSize = 12
	typeA      = 1
	classIN    = 1
)

// newQuestion returns a query for the IPv4 addresses of a name. Each query has a socket of its own, so that its ID does not matter.
func newQuestion(name string) ([]byte, error) {
	const longest, longestLabel = 253, 63
	if len(name) > longest {
		return nil, fmt.Errorf("the name has %d characters", len(name))
	}
	message := append(make([]byte, 0, headerSize+len(name)+6), 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > longestLabel {
			return nil, fmt.Errorf("%q is no name", name)
		}
		message = append(append(message, byte(len(label))), label...)
	}
	return append(message, 0, 0, typeA, 0, classIN), nil
}

// ask returns the server's answer to a query.
func (n nameserver) ask(question []byte) ([]byte, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: answerTime}); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Addr: n.address, Port: n.port}); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	if _, err := syscall.Write(fd, question); err != nil {
		return nil, os.NewSyscallError("send", err)
	}
	answer := make([]byte, 4096)
	for {
		size, err := syscall.Read(fd, answer)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("receive", err)
		}
		return answer[:size], nil
	}
}

// addressesIn returns the IPv4 addresses in an answer whose records begin at an offset; none, if the name does not exist.
func addressesIn(answer []byte, at int) ([]string, error) {
	const codeMask, noSuchName, fixed = 0x0f, 3, 10
	malformed := errors.New("the server's answer is malformed")
	if len(answer) < at {
		return nil, malformed
	}
	switch code := answer[3] & codeMask; code {
	case 0:
	case noSuchName:
		return nil, nil
	default:
		return nil, fmt.Errorf("the server's answer has the code %d", code)
	}
	var all []string
	for range binary.BigEndian.Uint16(answer[6:]) {
		if at = skipName(answer, at); at+fixed > len(answer) {
			return nil, malformed
		}
		kind, size := binary.BigEndian.Uint16(answer[at:]), int(binary.BigEndian.Uint16(answer[at+8:]))
		data := at + fixed
		if at = data + size; at > len(answer) {
			return nil, malformed
		}
		if a := answer[data:at]; kind == typeA && size == 4 {
			all = append(all, fmt.Sprintf("%d.%d.%d.%d", a[0], a[1], a[2], a[3]))
		}
	}
	return all, nil
}

// skipName returns the offset behind a name, which may be beyond the end of the message.
func skipName(message []byte, at int) int {
	const pointer, pointerSize = 0xc0, 2
	for at < len(message) {
		switch size := int(message[at]); {
		case size == 0:
			return at + 1
		case size&pointer == pointer:
			return at + pointerSize
		default:
			at += 1 + size
		}
	}
	return at
}

// resolvConf is the file with the name server.
const resolvConf = "/etc/resolv.conf"

// lookUp shows the addresses of a name, as this container finds it.
func lookUp(r *request) response {
	_, query, _ := strings.Cut(r.target, "?")
	name, ok := strings.CutPrefix(query, "name=")
	if !ok || name == "" {
		return response{code: 400, kind: plainText, body: "want /resolve?name=NAME\n"}
	}
	server, err := readNameserver(resolvConf)
	var found []string
	if err == nil {
		found, err = server.resolve(name)
	}
	switch {
	case errors.Is(err, errNoName):
		return response{code: 404, kind: plainText, body: name + ": no such name\n"}
	case err != nil:
		return response{code: 502, kind: plainText, body: name + ": " + err.Error() + "\n"}
	}
	return response{kind: plainText, body: strings.Join(found, "\n") + "\n"}
}
