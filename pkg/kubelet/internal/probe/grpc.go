package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
)

// grpcClient speaks HTTP/2 without TLS, which is all that gRPC needs of a transport: a whole gRPC library would be as big
// as the rest of a kubelet.
var grpcClient = &http.Client{Transport: grpcTransport()}

func grpcTransport() *http.Transport {
	t := transport()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

const serving = 1 // grpc.health.v1.HealthCheckResponse_SERVING

var servingStatus = map[uint64]string{0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}

// GRPC asks a server of the gRPC health checking protocol how a service of it is; "" is the server as a whole.
func GRPC(ctx context.Context, address, service, agent string) (Result, string) {
	var message []byte
	if service != "" {
		message = protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), service)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/grpc.health.v1.Health/Check",
		bytes.NewReader(append(frame, message...)))
	if err != nil {
		return Failure, err.Error()
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	req.Header.Set("User-Agent", agent)
	resp, err := grpcClient.Do(req)
	if err != nil {
		return Failure, fmt.Sprintf("timeout: failed to connect service %q within the probe's time: %v", address, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return Failure, err.Error()
	}
	if code := grpcStatus(resp, "Grpc-Status"); code != "0" {
		return Failure, fmt.Sprintf("rpc error: code = %s desc = %s", code, grpcStatus(resp, "Grpc-Message"))
	}
	status, err := healthStatus(body)
	if err != nil {
		return Failure, err.Error()
	}
	if status != serving {
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", servingStatus[status])
	}
	return Success, fmt.Sprintf("service healthy (responded with %q)", servingStatus[status])
}

// grpcStatus finds a field of the trailers; a server that only refuses sends them as headers.
func grpcStatus(resp *http.Response, name string) string {
	if v := resp.Trailer.Get(name); v != "" {
		return v
	}
	return resp.Header.Get(name)
}

// healthStatus decodes a framed HealthCheckResponse.
func healthStatus(frame []byte) (uint64, error) {
	const header = 5
	if len(frame) < header || frame[0] != 0 || int(binary.BigEndian.Uint32(frame[1:header])) != len(frame)-header {
		return 0, fmt.Errorf("malformed gRPC answer of %d bytes", len(frame))
	}
	var status uint64
	for b := frame[header:]; len(b) > 0; {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, fmt.Errorf("malformed health answer: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if field == 1 && kind == protowire.VarintType {
			status, n = protowire.ConsumeVarint(b)
		} else {
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return 0, fmt.Errorf("malformed health answer: %w", protowire.ParseError(n))
		}
		b = b[n:]
	}
	return status, nil
}
