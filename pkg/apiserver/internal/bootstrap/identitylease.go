package bootstrap

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	identityLabel = "apiserver.kubernetes.io/identity" // of the Leases by which API servers of a cluster know each other
	identityOwner = "kube-apiserver"

	leasesEvery = time.Hour
)

// removeLeases deletes the expired identity Leases of API servers, once an hour.
func (b *Bootstrap) removeLeases(ctx context.Context) error {
	b.leasesDue.reset(leasesEvery)
	if b.rows[client.Leases.GroupResource()] == nil {
		return nil
	}
	list, err := b.access.Reader.List(ctx, client.Leases.GroupResource(), metav1.NamespaceSystem)
	if err != nil {
		return err
	}
	for _, obj := range list {
		l, ok := obj.(*coordinationv1.Lease)
		if !ok || l.Labels[identityLabel] != identityOwner || !expired(l, b.config.Clock.Now()) {
			continue
		}
		// A Lease that was renewed since stays.
		of := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
		_, err := b.access.Client(Agent).Delete(ctx, client.In(client.Leases, objects.Key{Namespace: l.Namespace, Name: l.Name}), of)
		if err := ignoreConflict(err); err != nil {
			return err
		}
	}
	return nil
}

// expired reports whether a Lease is past its duration. One without a time of renewal or a duration is invalid, and so expired.
func expired(l *coordinationv1.Lease, now time.Time) bool {
	return l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil ||
		l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second).Before(now)
}
