package minikctl

import "github.com/minikctl/minikctl/pkg/objects/message"

// The kinds that a scheduler in another process sends for every pod have a protobuf form. Decoding their JSON took a sixth of the API server's
// processor time while pods were bound.

// Marshal returns d as a protobuf message.
func (d *Decision) Marshal() ([]byte, error) { return message.Marshal(d) }

// Unmarshal decodes a protobuf message into d, which is empty.
func (d *Decision) Unmarshal(b []byte) error { return message.Unmarshal(b, d) }

// Marshal returns l as a protobuf message.
func (l *DecisionList) Marshal() ([]byte, error) { return message.Marshal(l) }

// Unmarshal decodes a protobuf message into l, which is empty.
func (l *DecisionList) Unmarshal(b []byte) error { return message.Unmarshal(b, l) }

// Marshal returns b as a protobuf message.
func (b *BindingBatch) Marshal() ([]byte, error) { return message.Marshal(b) }

// Unmarshal decodes a protobuf message into b, which is empty.
func (b *BindingBatch) Unmarshal(data []byte) error { return message.Unmarshal(data, b) }
