// Package unread owns an HTTP/2 client that reads no response: its streams have a window of zero bytes, so that the server can send
// headers but no body. Tests use it to find out what a server holds for such clients.
package unread

import (
	"bytes"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Conn is a connection. It is safe for concurrent use.
type Conn struct {
	// Begun receives the stream of each response that has begun, and Reset that of each one that the server has reset. Both
	// drop what their reader does not take.
	Begun, Reset chan uint32

	framer *http2.Framer
	token  string
	mu     sync.Mutex // guards writes to framer, and the fields below
	block  bytes.Buffer
	enc    *hpack.Encoder
	next   uint32
}

// New starts HTTP/2 on a connection that has negotiated it. Requests have a bearer token, unless it is "". The connection ends when
// conn is closed.
func New(conn net.Conn, token string) (*Conn, error) {
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	c := &Conn{
		Begun: make(chan uint32, 1000), Reset: make(chan uint32, 1000),
		framer: http2.NewFramer(conn, conn), token: token, next: 1,
	}
	c.enc = hpack.NewEncoder(&c.block)
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return nil, err
	}
	go c.read() // ends with conn
	return c, nil
}

// read acknowledges what the server requires.
func (c *Conn) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.mu.Lock()
				_ = c.framer.WriteSettingsAck() // fails when the connection is closed
				c.mu.Unlock()
			}
		case *http2.PingFrame:
			c.mu.Lock()
			_ = c.framer.WritePing(true, f.Data)
			c.mu.Unlock()
		case *http2.HeadersFrame:
			note(c.Begun, f.StreamID)
		case *http2.RSTStreamFrame:
			note(c.Reset, f.StreamID)
		}
	}
}

func note(c chan uint32, stream uint32) {
	select {
	case c <- stream:
	default:
	}
}

// Get sends a request with more headers, as pairs of name and value.
func (c *Conn) Get(path string, headers ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block.Reset()
	all := append([]string{
		":method", "GET", ":scheme", "https", ":path", path, ":authority", "h",
	}, headers...)
	if c.token != "" {
		all = append(all, "authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(all); i += 2 {
		if err := c.enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}); err != nil {
			return err
		}
	}
	p := http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true}
	c.next += 2
	return c.framer.WriteHeaders(p)
}
