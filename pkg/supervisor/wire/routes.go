package wire

import "time"

// Routes is what an attached daemon sends, if the Synced event has Routes: changes of the ways from the addresses of Services to their
// endpoints. The supervisor keeps them while no daemon is attached.
type Routes struct {
	// Sockets: the message has nothing but files, the listening sockets that the supervisor keeps open for the next daemon, in place of those of the
	// last such message.
	Sockets bool `json:",omitempty"`
	// Replace begins a new table, which takes the place of the last one when a message without More has arrived.
	Replace bool `json:",omitempty"`
	More    bool `json:",omitempty"` // with Replace, and in the messages after it: the new table is not complete
	Set     []Route
	// Ranges are the prefixes of Services' addresses. A connection of a pod to one of them that no route has is refused. They replace
	// those of the last message that had some; nil: no change.
	Ranges []string
}

// Route leads the connections of pods to one address and port to endpoints.
type Route struct {
	Protocol  string          // TCP or UDP
	Address   string          // IPv4, with the port
	Gone      bool            `json:",omitempty"` // there is no such route any more
	Endpoints []RouteEndpoint `json:",omitempty"` // none: connections are refused
	Affinity  time.Duration   `json:",omitempty"` // how long a client stays with its endpoint after its last connection; 0: it does not
	Local     bool            `json:",omitempty"` // clients are sent only to endpoints on their own node
	Sources   []string        `json:",omitempty"` // the prefixes of the clients that are served; none: all are
}

// RouteEndpoint is where connections go.
type RouteEndpoint struct {
	Address string // IPv4, with the port
	Node    string `json:",omitempty"` // with Route.Local
}
