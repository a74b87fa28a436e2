package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/minikctl/minikctl/pkg/network/addr"
)

// GRPC checks a service by the gRPC health checking protocol; "" means the server as a whole. ctx must end after timeout,
// which GRPC uses for the error message only.
func GRPC(ctx context.Context, address, service, agent string, timeout time.Duration) (Result, string) {
	// The dialer bypasses proxies.
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(agent),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return addr.Dial(new(net.Dialer))(ctx, "tcp", address)
		}))
	if err != nil {
		return Failure, fmt.Sprintf("error: failed to connect service at %q: %+v", address, err)
	}
	defer func() { _ = conn.Close() }() // Close fails only if the connection is closed already
	response, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	case status.Code(err) == codes.Unavailable:
		return Failure, fmt.Sprintf("error: failed to connect service at %q: %+v", address, err)
	case status.Code(err) == codes.Unimplemented:
		return Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + status.Convert(err).Message()
	default:
		return Failure, fmt.Sprintf("error: health rpc probe failed: %+v", err)
	}
	if response.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", response.GetStatus().String())
	}
	return Success, "service healthy"
}
