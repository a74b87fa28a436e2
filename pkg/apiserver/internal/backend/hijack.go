package backend

import (
	"bufio"
	"net"
	"net/http"
)

// Hijackable returns w in a form that libraries can take the connection from which know nothing of wrapped writers.
func Hijackable(w http.ResponseWriter) http.ResponseWriter { return hijackable{w} }

type hijackable struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (w hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach the connection.
func (w hijackable) Unwrap() http.ResponseWriter { return w.ResponseWriter }
