package bootstrap

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// tracking names the ConfigMap with the date from which on the last uses of tokens in Secrets are recorded.
var tracking = objects.Key{Namespace: metav1.NamespaceSystem, Name: "kube-apiserver-legacy-service-account-token-tracking"}

// trackingSince is the field of the date.
const trackingSince = "since"

// trackingEvery is the shortest time between two creations of the ConfigMap.
const trackingEvery = 30 * time.Minute

// ensureTracking creates the ConfigMap at the first start and when a client has deleted it, and corrects a date that is none.
func (b *Bootstrap) ensureTracking(ctx context.Context) error {
	b.trackingDue.reset(0)
	row := b.rows[client.ConfigMaps.GroupResource()]
	if row == nil {
		return nil
	}
	now := b.config.Clock.Now()
	today := now.UTC().Format(time.DateOnly)
	// The store is read directly, since nothing else may need all ConfigMaps.
	e, err := b.config.Store.Get(ctx, cache.StoreKey(client.ConfigMaps.GroupResource(), tracking), 0)
	if errors.Is(err, store.ErrNotFound) {
		return b.createTracking(ctx, now, today)
	}
	if err != nil {
		return err
	}
	obj, err := cache.Decode(row, e.Value)
	if err != nil {
		return nil //nolint:nilerr // the cache reports it
	}
	if _, err := time.Parse(time.DateOnly, obj.(*corev1.ConfigMap).Data[trackingSince]); err == nil {
		return nil
	}
	obj, err = b.access.Reader.Get(ctx, client.ConfigMaps.GroupResource(), tracking)
	if err != nil {
		return ignoreConflict(err)
	}
	next := obj.(*corev1.ConfigMap).DeepCopy()
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Data[trackingSince] = today
	_, err = b.access.Client(Agent).Update(ctx, client.In(client.ConfigMaps, tracking), next, metav1.UpdateOptions{})
	return ignoreConflict(err)
}

func (b *Bootstrap) createTracking(ctx context.Context, now time.Time, today string) error {
	if wait := creationDelay(b.trackingMade, now); wait > 0 {
		b.trackingDue.reset(wait)
		return nil
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tracking.Namespace, Name: tracking.Name}, Data: map[string]string{trackingSince: today},
	}
	_, err := b.access.Client(Agent).Create(ctx, client.Target{Resource: client.ConfigMaps, Namespace: tracking.Namespace}, cm, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		b.trackingMade = now
	}
	return ignoreConflict(err)
}

// creationDelay returns how long the next creation has to wait after the last one; 0: it is due.
func creationDelay(last, now time.Time) time.Duration {
	return max(trackingEvery-now.Sub(last), 0)
}
