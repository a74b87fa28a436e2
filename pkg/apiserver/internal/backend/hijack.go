package backend

import (
	"bufio"
	"net"
	"net/http"
)

// Hijackable returns w with a Hijack method, for libraries that do not unwrap ResponseWriters.
func Hijackable(w http.ResponseWriter) http.ResponseWriter { return hijackable{w} }

type hijackable struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (w hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach the connection.
func (w hijackable) Unwrap() http.ResponseWriter { return w.ResponseWriter }
